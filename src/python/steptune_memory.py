"""Says which buffers to register with NCCL, and makes them for PyTorch.

Only an application can register the buffers that NCCL moves, and whether that
makes a collective faster depends on its size.  `steptune tune` measures it, and
writes what it found as a memory policy beside the policy (steptune.conf.memory;
steptune-policy(5)).  This file is all that an application needs: copy it, or

    sys.path.append("/usr/local/share/steptune/python")
    import steptune_memory

    n_bytes = tokens * width * 2
    setup = steptune_memory.setup("allreduce", n_bytes)
    group = dist.new_group(ranks, pg_options=steptune_memory.options(setup))
    buffers = steptune_memory.pool(group, n_bytes, setup.memory)
    z = buffers.empty(tokens, width, dtype=torch.bfloat16)
    ...
    torch.mm(x, weight, out=z)       # or whatever writes into z
    dist.all_reduce(z, group=group)

The memory policy is $STEPTUNE_MEMORY_CONFIG_FILE, else that of
$NCCL_TUNER_CONFIG_FILE with .memory behind it, else nccl_tuner.conf.memory; all
ranks must read the same.  Without the file every answer is "plain".

setup() and wants() need nothing but Python; options() and pool() need PyTorch
with NCCL.
"""
import collections
import errno
import functools
import glob
import os
import re
import stat
import warnings

__all__ = ["Policy", "Pool", "Refused", "Setup", "load", "options", "pool",
           "setup", "wants"]

COLLECTIVES = ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")
MEMORIES = ("plain", "reg", "sym", "ce")

MAX_CTAS = 64  # of NCCL

# What an application decides for a buffer: memory is one of MEMORIES; min_ctas
# is what ncclConfig_t.minCTAs of its communicator is to be, 0 for NCCL's own.
Setup = collections.namedtuple("Setup", "memory min_ctas")

_INF = 2**64 - 1
_ROUND = 8192  # bytes that a CTA of NCCL's symmetric kernels moves in a round
_MOST_RANKS = 2**20  # of which C tells the bytes of a round
_MAX_LINE = 4096
_BOM = b"\xef\xbb\xbf"
_BITS = b"# bits:"  # results keep their bits: of a policy as a whole


class Refused(ValueError):
    """A line of a memory policy that does not parse: the file is not used."""

    def __init__(self, line, column, text):
        super().__init__(f"{line}:{column}: {text}")
        self.line = line
        self.column = column  # from 1, in bytes
        self.text = text


# ---- fields ----

def _read_word(words):
    def read(field):
        word = field.decode("latin-1")
        return word if word in words else None
    return read, "one of " + ", ".join(words)


def _read_number(digits):
    """The number of these digits, or None if 64 bits do not hold it."""
    digits = digits.lstrip(b"0") or b"0"
    return int(digits) if len(digits) <= 20 and int(digits) <= _INF else None


def _read_size(field):
    match = re.fullmatch(rb"([0-9]+)([KkMmGg]?)", field)
    number = _read_number(match[1]) if match else None
    if number is None:
        return None
    size = number << {b"": 0, b"K": 10, b"M": 20, b"G": 30}[match[2].upper()]
    return size if size <= _INF else None


def _read_max_size(field):
    return _INF if field == b"inf" else _read_size(field)


def _read_range(field):
    """(first, last) of "N", "N-M", "N-inf" or "-1"."""
    if field == b"-1":
        return 1, _INF
    match = re.fullmatch(rb"([0-9]+)(?:-([0-9]+|inf))?", field)
    if not match:
        return None
    first = _read_number(match[1])
    last = first
    if match[2]:
        last = _INF if match[2] == b"inf" else _read_number(match[2])
    if not first or last is None or first > last:
        return None
    return first, last


def _read_switch(field):
    return {b"-1": -1, b"0": 0, b"1": 1}.get(field)


def _read_ctas(field):
    """1 to 64; 0, as -1, is NCCL's own count."""
    if field == b"-1":
        return 0
    number = _read_number(field) if re.fullmatch(rb"[0-9]+", field) else None
    return number if number is not None and number <= MAX_CTAS else None


def _read_gpu(field):
    """The name as bytes; b"*" is any."""
    if field != b"*" and re.search(rb'["*\x00-\x1f\x7f]', field):
        return None
    return field


_SIZE = "bytes such as 0, 4096, 64K, 32M or 2G"
_RANGE = "-1, N, N-M or N-inf, from 1"

# How a field of each column is read, what was expected of one that is refused,
# and what a rule has whose file lacks the column.
_COLUMNS = {
    "collective": (*_read_word(COLLECTIVES), None),
    "min_bytes": (_read_size, _SIZE, 0),
    "max_bytes": (_read_max_size, _SIZE + ", or inf", _INF),
    "memory": (*_read_word(MEMORIES), None),
    "min_ctas": (_read_ctas, "-1, 0 or 1 to 64", 0),
    "nNodes": (_read_range, _RANGE, (1, _INF)),
    "nRanks": (_read_range, _RANGE, (1, _INF)),
    "overlap": (_read_switch, "-1, 0 or 1", -1),
    "gpu": (_read_gpu, "the name of a GPU model, or * for any", b"*"),
}
_NVIDIA_NAMES = {"colltype": "collective", "minbytes": "min_bytes",
                 "maxbytes": "max_bytes"}


def _show(field):
    return ascii(field.decode("latin-1")[:40])


def _split(line):
    """The fields of a line without blanks around them, each with its column."""
    fields = []
    begin = 0
    for part in line.split(b","):
        field = part.strip(b" \t")
        blanks = len(part) - len(part.lstrip(b" \t"))
        fields.append((field, begin + blanks + 1))
        begin += len(part) + 1
    return fields


# ---- lines ----

class _Reader:
    """Reads a file line by line; its rules are dicts from column to value."""

    def __init__(self):
        self.line = 0
        self.columns = None  # of the header
        self.rules = []

    def refuse(self, column, text):
        raise Refused(self.line, column, text)

    def read(self, text):
        if text.startswith(_BOM):
            text = text[len(_BOM):]
        lines = text.split(b"\n")
        for line in lines[:-1]:
            self.read_line(line[:-1] if line.endswith(b"\r") else line)
        self.read_line(lines[-1])
        return self.rules

    def read_line(self, line):
        self.line += 1
        if len(line) > _MAX_LINE:
            self.refuse(_MAX_LINE + 1, f"line of {len(line)} bytes, expected "
                        f"at most {_MAX_LINE}")
        for byte, name in ((b"\0", "a NUL byte"), (b"\r", "a stray carriage "
                           "return"), (_BOM, "a byte order mark")):
            if byte in line:
                self.refuse(line.index(byte) + 1, f"{name}, expected text")
        if line.startswith(_BITS) and line != _BITS + b" same":
            self.refuse(len(_BITS) + 1, "bits of another word, expected the "
                        "line '# bits: same', or no line of bits")
        fields = _split(line.split(b"#")[0])
        if fields[0][0] == b"" and len(fields) == 1:
            return
        if self.columns is None:
            self.columns = self.read_header(fields)
        else:
            self.rules.append(self.read_rule(fields))

    @staticmethod
    def find_column(field):
        name = field.decode("latin-1")
        name = _NVIDIA_NAMES.get(name, name)
        return name if name in _COLUMNS else None

    def read_header(self, fields):
        columns = []
        for field, at in fields:
            column = self.find_column(field)
            if column is None:
                self.refuse(at, f"{_show(field)} is no column, expected a "
                            "header line of " + ", ".join(_COLUMNS))
            if column in columns:
                self.refuse(at, f"column '{column}' is named twice, expected "
                            "each once")
            columns.append(column)
        for column, (_, _, default) in _COLUMNS.items():
            if default is None and column not in columns:
                self.refuse(fields[0][1], f"the header lacks '{column}', "
                            "expected at least collective and memory")
        return columns

    def read_rule(self, fields):
        try:
            return self.read_fields(fields)
        except Refused:
            if self.find_column(fields[0][0]) is None:
                raise
        return self.refuse(fields[0][1], f"header word {_show(fields[0][0])} "
                           "in the wrong place, expected one header line, "
                           "before the first rule")

    def read_fields(self, fields):
        if len(fields) != len(self.columns):
            many = len(fields) > len(self.columns)
            field, at = fields[len(self.columns) if many else -1]
            self.refuse(at + (0 if many else len(field)), f"expected "
                        f"{len(self.columns)} fields as in the header, found "
                        f"{len(fields)}")
        rule = {column: default for column, (_, _, default) in _COLUMNS.items()}
        places = {}
        for column, (field, at) in zip(self.columns, fields):
            read, expected, _ = _COLUMNS[column]
            rule[column] = read(field) if field else None
            if rule[column] is None:
                self.refuse(at, f"{column} {_show(field)}, expected {expected}")
            places[column] = at
        if rule["min_bytes"] > rule["max_bytes"]:
            self.refuse(places.get("min_bytes"), f"min_bytes "
                        f"{rule['min_bytes']} is above max_bytes "
                        f"{rule['max_bytes']}")
        return rule


# ---- what a policy answers ----

def _fills_rounds(rule, nbytes, ranks):
    """Whether the rule decides a message of so many bytes that is within it.

    A rule of symmetric memory for more than one size is for messages that fill
    whole rounds of NCCL's kernels alone: steptune-policy(5)."""
    if rule["memory"] != "sym" or rule["min_bytes"] == rule["max_bytes"]:
        return True
    op = rule["collective"]
    unit = _ROUND * (rule["min_ctas"] or MAX_CTAS)
    unit *= ranks if op in ("allgather", "reducescatter") else 1
    unit *= ranks if op in ("reduce", "reducescatter", "allreduce") else 1
    return nbytes % (unit if ranks <= _MOST_RANKS else _INF) == 0


def _read_model(path):
    with open(path, "rb") as file:
        for line in file:
            if line.startswith(b"Model:"):
                return line[len(b"Model:"):].strip()
    return b""


def _find_gpu():
    """The model that all GPUs of this host have, by the driver; b"" if none."""
    named = os.environ.get("STEPTUNE_GPU")
    if named:
        return os.fsencode(named)
    models = {_read_model(path) for path in
              glob.glob("/proc/driver/nvidia/gpus/*/information")}
    return models.pop() if len(models) == 1 else b""


def _count_ranks(ranks, nodes):
    """Those asked about; what is None is as torchrun started this process."""
    if ranks is None:
        if "WORLD_SIZE" not in os.environ:
            raise ValueError("ranks is None and WORLD_SIZE is not set, expected "
                             "the number of ranks of the group")
        ranks = int(os.environ["WORLD_SIZE"])
    if nodes is None:
        on_host = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
        nodes = -(-ranks // on_host)
    return ranks, nodes


class Policy:
    """Rules in the order of the file, of which the first that matches decides."""

    def __init__(self, text=b"", gpu=None):
        """Reads the text (bytes) of a memory policy, or raises Refused.

        gpu is the model's name, None that of this host's GPUs."""
        self.rules = _Reader().read(text)
        self.gpu = _find_gpu() if gpu is None else os.fsencode(gpu)

    def wants(self, op, nbytes, ranks=None, nodes=None, overlap=False):
        """Like wants(), by this policy."""
        return self.setup(op, nbytes, ranks, nodes, overlap).memory

    def setup(self, op, nbytes, ranks=None, nodes=None, overlap=False):
        """Like setup(), by this policy."""
        if op not in COLLECTIVES:
            raise ValueError(f"unknown collective {op!r}, expected one of "
                             + ", ".join(COLLECTIVES))
        ranks, nodes = _count_ranks(ranks, nodes)
        for name, value, least in (("nbytes", nbytes, 0), ("ranks", ranks, 1),
                                   ("nodes", nodes, 1)):
            if value < least:
                raise ValueError(f"{name} is {value}, expected at least {least}")
        for rule in self.rules:
            if (rule["collective"] == op
                    and rule["min_bytes"] <= nbytes <= rule["max_bytes"]
                    and rule["nRanks"][0] <= ranks <= rule["nRanks"][1]
                    and rule["nNodes"][0] <= nodes <= rule["nNodes"][1]
                    and rule["overlap"] in (-1, int(bool(overlap)))
                    and rule["gpu"] in (b"*", self.gpu)
                    and _fills_rounds(rule, nbytes, ranks)):
                return Setup(rule["memory"], rule["min_ctas"])
        return Setup("plain", 0)


def _default_path():
    named = os.environ.get("STEPTUNE_MEMORY_CONFIG_FILE")
    policy = os.environ.get("NCCL_TUNER_CONFIG_FILE") or "nccl_tuner.conf"
    return named or policy + ".memory"


def _distrust(path, status, folder):
    """Why a file, or a link to it, is not used; None if it may be.

    The rule of the plugins (SECURITY.md): nobody but this user, root, and whom
    they or a folder's owner let write may decide."""
    trusted = status.st_uid in (os.geteuid(), 0)
    all_write = folder.st_mode & stat.S_IWOTH
    sticky = folder.st_mode & stat.S_ISVTX
    if stat.S_ISLNK(status.st_mode):
        if all_write and not (sticky and trusted):
            return ("it is a symbolic link that another user may have made in a "
                    "folder that all users may write")
    elif not stat.S_ISREG(status.st_mode):
        return "it is no regular file"
    elif status.st_mode & stat.S_IWOTH:
        return "all users may write it"
    elif not trusted and all_write and not (sticky and os.path.dirname(path)):
        return "another user owns it, in a folder that all users may write"
    return None


def _open(path, flags):
    """As open(2), of a file that may be used; waits for no FIFO."""
    folder = os.path.dirname(path) or os.curdir
    reason = None
    if not os.path.islink(path):
        flags |= os.O_NOFOLLOW
    else:
        reason = _distrust(path, os.lstat(path), os.stat(folder))
        folder = os.path.dirname(os.path.realpath(path))
    if reason is None:
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
        reason = _distrust(path, os.fstat(fd), os.stat(folder))
        if reason is None or os.path.samestat(os.fstat(fd),
                                              os.stat(os.devnull)):
            return fd
        os.close(fd)
    raise PermissionError(errno.EPERM, reason, path)


def load(path=None):
    """The Policy in the file, by default the one that wants() reads.

    Warns, and answers "plain" to everything, if there is no such file.  Raises
    Refused for a line that does not parse, OSError for a file that cannot be
    read, or that another user may have written."""
    path = path or _default_path()
    try:
        with open(path, "rb", opener=_open) as file:
            text = file.read()
    except FileNotFoundError:
        warnings.warn(f"there is no memory policy {path}: buffers stay plain",
                      stacklevel=2)
        return Policy()
    try:
        return Policy(text)
    except Refused as refused:
        refused.args = (f"{path}:{refused}",)
        raise


_load_once = functools.lru_cache(maxsize=None)(load)


def wants(op, nbytes, ranks=None, nodes=None, overlap=False):
    """The memory of setup(): "plain", "reg", "sym" or "ce".  Enough for an
    application whose group has NCCL's own count of CTAs."""
    return setup(op, nbytes, ranks, nodes, overlap).memory


def setup(op, nbytes, ranks=None, nodes=None, overlap=False):
    """What a buffer should be registered as, and how many CTAs the kernels of
    its group need at least: a Setup, such as ("sym", 32).

    op is broadcast, reduce, allgather, reducescatter or allreduce; nbytes is
    the size as NCCL passes it to a tuner: of the whole buffer, for allgather
    and reducescatter the sum over all ranks.  ranks and nodes are those of the
    group, by default all that torchrun started (WORLD_SIZE, and as many hosts
    as so many ranks need by LOCAL_WORLD_SIZE).  overlap says whether compute
    runs at the same time.

    The file is read once in a process."""
    return _load_once().setup(op, nbytes, ranks, nodes, overlap)


# ---- PyTorch ----

_NO_POLICY = ("this PyTorch cannot set the CTA policy of a group, expected one "
              "that has ProcessGroupNCCL.NCCL_CTA_POLICY_ZERO for memory 'ce'")


def options(setup):
    """The pg_options of a group for buffers of this Setup, for
    torch.distributed.new_group().

    They hold for all collectives of the group: buffers with another setup, and
    plain ones, are best left in another group.  Of Setup("plain", 0), reg and
    sym without min_ctas they are what a group has anyway.  Raises RuntimeError
    if this PyTorch cannot set what is wanted."""
    import torch.distributed as dist

    made = dist.ProcessGroupNCCL.Options()
    config = getattr(made, "config", None)
    if setup.memory == "ce":
        zero = getattr(dist.ProcessGroupNCCL, "NCCL_CTA_POLICY_ZERO", None)
        if zero is None or config is None:
            raise RuntimeError(_NO_POLICY)
        config.cta_policy = zero
    if setup.min_ctas:
        if config is None:
            raise RuntimeError("this PyTorch cannot set the CTAs of a group, "
                               "expected one whose ProcessGroupNCCL.Options "
                               "have a config for min_ctas "
                               f"{setup.min_ctas}")
        config.min_ctas, config.max_ctas = setup.min_ctas, MAX_CTAS
    return made


class Pool:
    """Buffers of one group, registered with its communicator.

    A pool is one piece of memory of NCCL's allocator.  It is registered once,
    when the pool is made, and buffers are cut off it afterwards: an allocation
    that PyTorch makes in a registered torch.cuda.MemPool registers its memory
    at that moment, which hangs unless all ranks do it at once; and PyTorch may
    register several pieces in another order on each rank, by which NCCL would
    take one buffer for the other.

    All ranks of the group make the pool together, with the same size and
    memory, and cut off the same buffers in the same order.  Keep the pool as
    long as its buffers and CUDA graphs that use them; close() it, or leave its
    `with`, before the process group is destroyed.  Memory of a pool is not
    returned to it."""

    ALIGNMENT = 512  # of buffers, in bytes

    def __init__(self, group, nbytes, memory="sym"):
        import torch
        import torch.distributed as dist

        if memory not in MEMORIES:
            raise ValueError(f"unknown memory {memory!r}, expected one of "
                             + ", ".join(MEMORIES))
        if nbytes < 1:
            raise ValueError(f"a pool of {nbytes} bytes, expected at least 1")
        self.memory = memory
        self.nbytes = nbytes
        self.mem_pool = None  # the torch.cuda.MemPool, None of plain memory
        self._torch = torch
        self._used = 0
        self._device = torch.device("cuda", torch.cuda.current_device())
        group = group if group is not None else dist.group.WORLD
        self._compare_ranks(dist, group)
        if memory == "plain":
            self._bytes = self._allocate()
            return
        self._backend = group._get_backend(self._device)
        if memory == "ce":
            self._require_copy_engines(dist)
        mem_pool = torch.cuda.MemPool(self._backend.mem_allocator)
        with torch.cuda.use_mem_pool(mem_pool):
            self._bytes = self._allocate()
        if memory == "reg":
            self._backend.register_mem_pool(mem_pool)
        else:
            self._backend.register_mem_pool(mem_pool, symm=True)
        self.mem_pool = mem_pool

    def _allocate(self):
        return self._torch.empty(self.nbytes, dtype=self._torch.uint8,
                                 device=self._device)

    def _compare_ranks(self, dist, group):
        """Also connects the ranks, without which nothing can be registered."""
        mine = (self.nbytes, self.memory)
        all_ranks = [None] * dist.get_world_size(group)
        dist.all_gather_object(all_ranks, mine, group=group)
        for rank, theirs in enumerate(all_ranks):
            if tuple(theirs) != mine:
                raise RuntimeError(
                    f"rank {rank} of the group makes a pool of {theirs[0]} "
                    f"bytes as {theirs[1]}, this rank one of {mine[0]} bytes as "
                    f"{mine[1]}, expected the same on all ranks")

    def _require_copy_engines(self, dist):
        zero = getattr(dist.ProcessGroupNCCL, "NCCL_CTA_POLICY_ZERO", None)
        config = getattr(self._backend.options, "config", None)
        policy = getattr(config, "cta_policy", 0)
        if zero is None:
            raise RuntimeError(_NO_POLICY)
        if not (policy & zero or
                os.environ.get("NCCL_CTA_POLICY") == str(int(zero))):
            raise ValueError(
                "the group has no CTA policy ZERO, expected one for memory "
                "'ce': dist.new_group(ranks, pg_options="
                "steptune_memory.options(setup))")

    def empty(self, *shape, dtype):
        """A new tensor of that shape in the pool, not initialized.

        Give it to the collective as it is, or to an operation as out=.  Raises
        MemoryError if less is left: nothing grows a pool."""
        if len(shape) == 1 and not isinstance(shape[0], int):
            shape = tuple(shape[0])
        if self._bytes is None:
            raise RuntimeError("the pool is closed")
        size = dtype.itemsize
        for n in shape:
            size *= n
        begin = -(-self._used // self.ALIGNMENT) * self.ALIGNMENT
        if begin + size > self.nbytes:
            raise MemoryError(f"a buffer of {size} bytes, but the pool of "
                              f"{self.nbytes} bytes has "
                              f"{max(0, self.nbytes - begin)} left")
        self._used = begin + size
        return self._bytes[begin:begin + size].view(dtype).view(shape)

    def close(self):
        """Ends the registration, after all work on the GPU; on all ranks."""
        if self._bytes is None:
            return
        self._torch.cuda.synchronize()
        if self.mem_pool is not None:
            self._backend.deregister_mem_pool(self.mem_pool)
        self._bytes = self.mem_pool = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def pool(group, nbytes, memory="sym"):
    """A Pool of nbytes for the group (None: of all ranks), registered as
    `memory`, which setup() gives: "plain" registers nothing, so that a program
    is the same with and without registration.  nbytes is the sum of the pool's
    buffers, each rounded up to 512 bytes.

    The group's backend is NCCL, and torch.cuda.set_device() chose the GPU.  For
    "ce" the group has the CTA policy ZERO."""
    return Pool(group, nbytes, memory)
