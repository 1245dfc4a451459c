"""steptune_memory.py: the memory policies of fixtures/, and many that are made
of them, by Python and by libsteptune_memory; and pools, with PyTorch played.

    steptune_memory_test.py FOLDER_OF_STEPTUNE_MEMORY_PY FIXTURES LIBRARY
"""
import contextlib
import ctypes
import os
import random
import re
import sys
import tempfile
import types
import unittest
import warnings
from unittest import mock

FOLDER, FIXTURES, LIBRARY = sys.argv[1:4]
sys.path.insert(0, FOLDER)
import steptune_memory  # noqa: E402


def read_fixtures(folder):
    folder = os.path.join(FIXTURES, "memory", folder)
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            yield name, file.read()


# ---- the reader in C ----

class Call(ctypes.Structure):
    _fields_ = [("collective", ctypes.c_char_p), ("n_bytes", ctypes.c_uint64),
                ("n_ranks", ctypes.c_uint64), ("n_nodes", ctypes.c_uint64),
                ("overlaps", ctypes.c_int)]


class Library:
    def __init__(self):
        self.c = ctypes.CDLL(LIBRARY)
        for ask in (self.c.steptune_memory_ask, self.c.steptune_memory_min_ctas):
            ask.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self.c.steptune_memory_close.argtypes = [ctypes.c_void_p]

    @contextlib.contextmanager
    def open(self, path):
        """A handle, and "" or the place of what was refused; "kind" of a file
        of another kind."""
        handle = ctypes.c_void_p()
        text = ctypes.create_string_buffer(4096)
        result = self.c.steptune_memory_open(
            os.fsencode(path), ctypes.byref(handle), text, len(text))
        place = re.match(rb".*?:([0-9]+:[0-9]+): ", text.value)
        is_other = re.search(rb": this (is|looks like) ", text.value)
        assert (result == 0) == (place is None and not is_other), text.value
        yield handle, (place[1].decode() if place else
                       "kind" if is_other else "")
        self.c.steptune_memory_close(handle)

    def ask(self, handle, question):
        op, nbytes, ranks, nodes, overlap = question
        call = Call(op.encode(), nbytes, ranks, nodes, overlap)
        answer = self.c.steptune_memory_ask(handle, ctypes.byref(call))
        return (steptune_memory.MEMORIES[answer],
                self.c.steptune_memory_min_ctas(handle, ctypes.byref(call)))


QUESTIONS = [(op, nbytes, ranks, nodes, overlap)
             for op in ("allreduce", "allgather")
             for nbytes in (0, 7, 100, 65536, 65537, 1 << 20, (4 << 20) + 1,
                            1 << 30, 2**64 - 1)
             for ranks, nodes in ((1, 1), (2, 1), (8, 1), (15, 4), (9, 5))
             for overlap in (0, 1)]


def mutate(text, rng):
    """The text with one to three bytes, fields or lines of it changed."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            text = text[:at] + bytes([rng.randrange(256)]) + text[at + 1:]
        elif kind == 1:
            text = text[:at] + text[at + rng.randint(1, 8):]
        elif kind == 2:
            word = rng.choice([b",", b"\n", b"\r\n", b" ", b"-1", b"inf", b"0",
                               b"2-8", b"K", b"sym", b"#", b"gpu", b"\t", b"*",
                               b"18446744073709551615", b"99999999999999999999",
                               b"memory", b"collective,memory\n", b"64",
                               b"collective,memory,min_ctas\n"])
            text = text[:at] + word + text[at:]
        else:
            lines = text.split(b"\n")
            lines.insert(rng.randrange(len(lines)), rng.choice(lines))
            text = b"\n".join(lines)
    return text


class Policies(unittest.TestCase):
    def test_bad_ones_are_refused_where_the_fixtures_say(self):
        n = 0
        for name, text in read_fixtures("bad"):
            expected = re.match(rb"# expect ([0-9]+):([0-9]+): ", text)
            with self.subTest(name), \
                    self.assertRaises(steptune_memory.Refused) as refused:
                steptune_memory.Policy(text)
            self.assertEqual((int(expected[1]), int(expected[2])),
                             (refused.exception.line, refused.exception.column),
                             f"{name}: {refused.exception}")
            n += 1
        self.assertGreaterEqual(n, 50)

    def test_good_ones_answer_as_the_fixtures_say(self):
        n_asked = 0
        for name, text in read_fixtures("good"):
            rules = re.search(rb"# rules ([0-9]+)", text)
            policy = steptune_memory.Policy(text, "")
            self.assertEqual(int(rules[1]) if rules else 0, len(policy.rules))
            for line in text.decode("utf-8").splitlines():
                if line.startswith("# gpu "):
                    policy = steptune_memory.Policy(text, line[6:])
                asked = re.match(r"# ask (.*) -> (.*)", line)
                if not asked:
                    continue
                op, *numbers = asked[1].split()
                nbytes, nodes, ranks, overlap = map(int, numbers)
                setup = policy.setup(op, nbytes, ranks, nodes, overlap)
                self.assertEqual(setup.memory, policy.wants(
                    op, nbytes, ranks, nodes, overlap))
                ctas = f", minCTAs {setup.min_ctas}" if setup.min_ctas else ""
                self.assertEqual(asked[2], setup.memory + ctas,
                                 f"{name}: {line}")
                n_asked += 1
        self.assertGreaterEqual(n_asked, 46)

    def test_python_and_c_agree_on_texts_made_of_the_fixtures(self):
        rng = random.Random(19)
        library = Library()
        texts = [text for folder in ("bad", "good", "good", "good", "good")
                 for _, text in read_fixtures(folder)]
        n_refused = n_rules = 0
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.dict(os.environ, STEPTUNE_GPU="no GPU"):
            path = os.path.join(folder, "policy")
            for i in range(6000):
                text = rng.choice(texts)
                if i >= len(texts):
                    text = mutate(text, rng)
                with open(path, "wb") as file:
                    file.write(text)
                try:
                    policy = steptune_memory.Policy(text, "no GPU")
                    mine = ""
                except steptune_memory.Refused as refused:
                    mine = f"{refused.line}:{refused.column}"
                    n_refused += 1
                with library.open(path) as (handle, place):
                    if place == "kind":
                        self.assertNotEqual(mine, "", text)
                        continue
                    self.assertEqual(place, mine, text)
                    if mine:
                        continue
                    n_rules += len(policy.rules)
                    for question in QUESTIONS:
                        self.assertEqual(library.ask(handle, question),
                                         policy.setup(*question),
                                         (text, question))
        self.assertGreater(n_refused, 1000)
        self.assertGreater(n_rules, 1000)


class Questions(unittest.TestCase):
    policy = steptune_memory.Policy(
        b"collective,memory,nRanks,nNodes\nallreduce,sym,8,2\n"
        b"allreduce,reg,2,1\n", "")

    def test_ranks_and_nodes_are_those_of_torchrun(self):
        cases = [({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}, (), "sym"),
                 ({"WORLD_SIZE": "2"}, (), "reg"),
                 ({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}, (2,), "reg"),
                 ({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}, (2, 2), "plain"),
                 ({}, (8, 2), "sym")]
        for variables, given, expected in cases:
            with mock.patch.dict(os.environ, variables, clear=True):
                self.assertEqual(
                    expected, self.policy.wants("allreduce", 4 << 20, *given))

    def test_what_is_no_question_is_refused(self):
        cases = [(("all_reduce", 8, 2, 1), "unknown collective 'all_reduce'"),
                 (("allreduce", -1, 2, 1), "nbytes is -1"),
                 (("allreduce", 8, 0, 1), "ranks is 0"),
                 (("allreduce", 8, 2, 0), "nodes is 0"),
                 (("allreduce", 8), "WORLD_SIZE is not set")]
        for question, text in cases:
            with mock.patch.dict(os.environ, {}, clear=True), \
                    self.assertRaisesRegex(ValueError, text):
                self.policy.wants(*question)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        steptune_memory._load_once.cache_clear()

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def wants(self, **variables):
        with mock.patch.dict(os.environ, variables, clear=True):
            return steptune_memory.wants("allreduce", 1 << 20, 2, 1)

    def test_variables_name_the_file_which_is_read_once(self):
        self.write("a.conf.memory", "collective,memory\nallreduce,sym\n")
        other = self.write("b", "collective,memory\nallreduce,ce\n")
        policy = os.path.join(self.folder, "a.conf")

        self.assertEqual("sym", self.wants(NCCL_TUNER_CONFIG_FILE=policy))
        self.assertEqual("sym", self.wants(STEPTUNE_MEMORY_CONFIG_FILE=other))
        steptune_memory._load_once.cache_clear()
        self.assertEqual("ce", self.wants(NCCL_TUNER_CONFIG_FILE=policy,
                                          STEPTUNE_MEMORY_CONFIG_FILE=other))

    def test_without_a_file_buffers_stay_plain_and_somebody_says_so(self):
        policy = os.path.join(self.folder, "none.conf")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            self.assertEqual("plain", self.wants(NCCL_TUNER_CONFIG_FILE=policy))
        self.assertEqual([f"there is no memory policy {policy}.memory: buffers "
                          "stay plain"], [str(w.message) for w in told])

    def test_a_refusal_names_file_line_and_column(self):
        path = self.write("a", "collective,memory\nallreduce,symm\n")
        with self.assertRaises(steptune_memory.Refused) as refused:
            self.wants(STEPTUNE_MEMORY_CONFIG_FILE=path)
        self.assertEqual(f"{path}:2:11: memory 'symm', expected one of plain, "
                         "reg, sym, ce", str(refused.exception))

    def test_what_cannot_be_read_is_an_error(self):
        with self.assertRaises(OSError):
            self.wants(STEPTUNE_MEMORY_CONFIG_FILE=self.folder)

    def test_the_null_device_is_an_empty_policy(self):
        self.assertEqual("plain",
                         self.wants(STEPTUNE_MEMORY_CONFIG_FILE=os.devnull))

    def test_a_link_is_followed(self):
        self.write("a", "collective,memory\nallreduce,sym\n")
        os.symlink("a", os.path.join(self.folder, "link"))
        self.assertEqual("sym", self.wants(STEPTUNE_MEMORY_CONFIG_FILE=os.path
                                           .join(self.folder, "link")))

    def test_what_another_user_may_have_written_is_not_used(self):
        """Nor a FIFO, which would hold the job."""
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        cases = [(fifo, "it is no regular file")]
        path = self.write("all", "collective,memory\nallreduce,sym\n")
        os.chmod(path, 0o646)
        cases.append((path, "all users may write it"))
        if os.geteuid() == 0:
            tmp = os.path.join(self.folder, "tmp")
            os.mkdir(tmp)
            path = self.write("tmp/theirs", "collective,memory\n")
            os.symlink("theirs", os.path.join(tmp, "link"))
            for name in ("theirs", "link"):
                os.lchown(os.path.join(tmp, name), 12345, 12345)
            os.chmod(tmp, 0o777)
            cases.append((path, "another user owns it, in a folder that all "
                          "users may write"))
            cases.append((os.path.join(tmp, "link"), "it is a symbolic link "
                          "that another user may have made in a folder that "
                          "all users may write"))
        for path, why in cases:
            with self.subTest(path):
                with self.assertRaises(PermissionError) as refused:
                    self.wants(STEPTUNE_MEMORY_CONFIG_FILE=path)
                self.assertEqual((why, path), (refused.exception.strerror,
                                               refused.exception.filename))


# ---- pools ----

class Bytes:
    """A tensor of bytes, as far as a pool knows tensors."""

    def __init__(self, begin, end, dtype="uint8", shape=None):
        self.begin, self.end, self.dtype, self.shape = begin, end, dtype, shape

    def __getitem__(self, part):
        return Bytes(self.begin + part.start, self.begin + part.stop)

    def view(self, to):
        if isinstance(to, tuple):
            return Bytes(self.begin, self.end, self.dtype, to)
        return Bytes(self.begin, self.end, to.name)


class Torch:
    """What a pool uses of PyTorch; notes every call in the order made."""

    def __init__(self, ranks=((4096, "sym"), (4096, "sym")), policy=0):
        self.calls = []
        self.ranks = ranks
        backend = types.SimpleNamespace(
            mem_allocator="ncclMemAlloc",
            options=types.SimpleNamespace(
                config=types.SimpleNamespace(cta_policy=policy)),
            register_mem_pool=self.note("register"),
            deregister_mem_pool=self.note("deregister"))
        self.group = types.SimpleNamespace(_get_backend=lambda device: backend)
        self.module = types.ModuleType("torch")
        self.module.uint8 = "uint8"
        self.module.device = lambda kind, index: f"{kind}:{index}"
        self.module.empty = self.allocate
        self.module.cuda = types.SimpleNamespace(
            current_device=lambda: 1, MemPool=self.make_pool,
            use_mem_pool=self.use_pool, synchronize=self.note("synchronize"))
        distributed = types.ModuleType("torch.distributed")
        distributed.get_world_size = lambda group: len(self.ranks)
        distributed.all_gather_object = self.gather
        distributed.group = types.SimpleNamespace(WORLD=self.group)
        distributed.ProcessGroupNCCL = types.SimpleNamespace(
            NCCL_CTA_POLICY_ZERO=2, Options=lambda: types.SimpleNamespace(
                config=types.SimpleNamespace()))
        self.module.distributed = distributed

    def note(self, name):
        def call(*args, **options):
            self.calls.append((name, *args, *options.items()))
        return call

    def allocate(self, size, dtype, device):
        self.calls.append(("empty", size, dtype, device))
        return Bytes(0, size)

    def make_pool(self, allocator):
        self.calls.append(("MemPool", allocator))
        return "pool"

    @contextlib.contextmanager
    def use_pool(self, pool):
        self.calls.append(("use", pool))
        yield
        self.calls.append(("used", pool))

    def gather(self, values, mine, group):
        self.calls.append(("gather", mine))
        values[:] = self.ranks

    def options(self, *setup):
        modules = {"torch": self.module,
                   "torch.distributed": self.module.distributed}
        with mock.patch.dict(sys.modules, modules):
            return steptune_memory.options(steptune_memory.Setup(*setup))

    def pool(self, *arguments, group=None):
        modules = {"torch": self.module,
                   "torch.distributed": self.module.distributed}
        with mock.patch.dict(sys.modules, modules):
            return steptune_memory.pool(group or self.group, *arguments)


BF16 = types.SimpleNamespace(name="bf16", itemsize=2)


class Pools(unittest.TestCase):
    def test_memory_is_registered_once_after_it_is_allocated(self):
        allocation = [("MemPool", "ncclMemAlloc"), ("use", "pool"),
                      ("empty", 4096, "uint8", "cuda:1"), ("used", "pool")]
        cases = [("sym", 0, allocation + [("register", "pool", ("symm", True))]),
                 ("reg", 0, allocation + [("register", "pool")]),
                 ("ce", 2, allocation + [("register", "pool", ("symm", True))]),
                 ("plain", 0, [("empty", 4096, "uint8", "cuda:1")])]
        for memory, policy, calls in cases:
            torch = Torch(((4096, memory),) * 2, policy)
            with self.subTest(memory), torch.pool(4096, memory) as pool:
                pool.empty(8, 8, dtype=BF16)
                self.assertEqual([("gather", (4096, memory))] + calls,
                                 torch.calls)
            end = [("synchronize",)]
            if memory != "plain":
                end.append(("deregister", "pool"))
            self.assertEqual(end, torch.calls[1 + len(calls):])
            pool.close()  # once is enough
            self.assertEqual(1 + len(calls) + len(end), len(torch.calls))

    def test_a_group_has_the_ctas_and_the_policy_of_its_setup(self):
        cases = [(("plain", 0), {}), (("reg", 0), {}), (("sym", 0), {}),
                 (("sym", 32), {"min_ctas": 32, "max_ctas": 64}),
                 (("ce", 0), {"cta_policy": 2}),
                 (("ce", 1), {"cta_policy": 2, "min_ctas": 1, "max_ctas": 64})]
        for setup, expected in cases:
            self.assertEqual(expected, vars(Torch().options(*setup).config))

    def test_pytorch_that_cannot_set_a_group_up_says_so(self):
        torch = Torch()
        nccl = torch.module.distributed.ProcessGroupNCCL
        del nccl.NCCL_CTA_POLICY_ZERO
        with self.assertRaisesRegex(RuntimeError, "cannot set the CTA policy"):
            torch.options("ce", 0)
        nccl.Options = types.SimpleNamespace
        torch.options("sym", 0)
        with self.assertRaisesRegex(RuntimeError, "cannot set the CTAs of a "
                                    "group, .* for min_ctas 16"):
            torch.options("sym", 16)

    def test_buffers_follow_one_another(self):
        pool = Torch().pool(4096)
        buffers = [pool.empty(100, dtype=BF16), pool.empty((2, 3), dtype=BF16),
                   pool.empty(dtype=BF16), pool.empty(1280, dtype=BF16)]
        self.assertEqual([(0, 200, "bf16", (100,)), (512, 524, "bf16", (2, 3)),
                          (1024, 1026, "bf16", ()), (1536, 4096, "bf16", (1280,))],
                         [(b.begin, b.end, b.dtype, b.shape) for b in buffers])
        with self.assertRaisesRegex(MemoryError, "a buffer of 2 bytes, but the "
                                    "pool of 4096 bytes has 0 left"):
            pool.empty(1, dtype=BF16)

    def test_nothing_is_cut_off_a_closed_pool(self):
        pool = Torch().pool(4096)
        pool.close()
        with self.assertRaisesRegex(RuntimeError, "the pool is closed"):
            pool.empty(1, dtype=BF16)

    def test_no_group_is_that_of_all_ranks(self):
        torch = Torch()
        modules = {"torch": torch.module,
                   "torch.distributed": torch.module.distributed}
        with mock.patch.dict(sys.modules, modules):
            steptune_memory.pool(None, 4096)
        self.assertIn(("register", "pool", ("symm", True)), torch.calls)

    def test_ranks_that_differ_register_nothing(self):
        cases = [((8192, "sym"), "rank 1 of the group makes a pool of 8192 bytes "
                  "as sym, this rank one of 4096 bytes as sym"),
                 ((4096, "plain"), "4096 bytes as plain")]
        for theirs, text in cases:
            torch = Torch(((4096, "sym"), theirs))
            with self.assertRaisesRegex(RuntimeError, text):
                torch.pool(4096)
            self.assertEqual([("gather", (4096, "sym"))], torch.calls)

    def test_copy_engines_need_the_groups_policy(self):
        ranks = ((4096, "ce"),) * 2
        torch = Torch(ranks, -2**31)
        with self.assertRaisesRegex(ValueError, "no CTA policy ZERO"):
            torch.pool(4096, "ce")
        with mock.patch.dict(os.environ, {"NCCL_CTA_POLICY": "2"}):
            torch.pool(4096, "ce")
        del torch.module.distributed.ProcessGroupNCCL.NCCL_CTA_POLICY_ZERO
        with self.assertRaisesRegex(RuntimeError, "this PyTorch cannot set"):
            torch.pool(4096, "ce")

    def test_arguments_are_checked_before_ranks_meet(self):
        torch = Torch()
        for arguments, text in (((4096, "symm"), "unknown memory 'symm'"),
                                ((0,), "a pool of 0 bytes")):
            with self.assertRaisesRegex(ValueError, text):
                torch.pool(*arguments)
        self.assertEqual([], torch.calls)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
