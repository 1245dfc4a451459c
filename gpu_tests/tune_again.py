"""Whether `steptune tune` comes to the same policies again, and what they are worth.

Tunes the GPUs of this host RUNS times in a row, and compares the policies for collectives
alone, for those that overlap compute, and for registered buffers. Runs agree at a size if both
have a rule there, or neither has; near the end of a rule's range they may differ by one step of
the grid, the resolution of tune. Then torch_memory.py says what the last run's policies are
worth to a PyTorch job. All is printed as it comes:

    python3 tune_again.py --steptune build/bin/steptune --out /tmp/again [-- TUNE-OPTION...]

Exits with 1 if runs differ by more than a step.
"""
import argparse
import itertools
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ("", ".overlap", ".memory")
STEP = 1.4 * 1.02  # the default of --resolution, and how sizes are rounded


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steptune", default="steptune")
    parser.add_argument("--plugin", help="the tuner plugin of the PyTorch job")
    parser.add_argument("--out", default="tune_again", help="folder of the policies")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=480, help="for all of it")
    parser.add_argument("--ranks", type=int, help="of the PyTorch job (default: all GPUs)")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("tune", nargs="*", default=["-d", "bfloat16"])
    return parser.parse_args()


def tune(o, i):
    """The policy of the i-th run, and how long it took."""
    policy = os.path.join(o.out, f"run{i}.conf")
    begin = time.monotonic()
    done = subprocess.run([o.steptune, "tune", *o.tune, "--fresh", "-o", policy], check=False,
                          stdout=subprocess.PIPE, text=True)
    with open(os.path.join(o.out, f"run{i}.txt"), "w") as file:
        file.write(done.stdout)
    if done.returncode != 0:
        sys.exit(f"run {i}: steptune tune ended with {done.returncode}\n{done.stdout}")
    print(f"---- run {i}: {time.monotonic() - begin:.1f} s", flush=True)
    for line in done.stdout.splitlines():
        if line.startswith(("No choice", "Every choice", "Not sure")) or " again" in line:
            print("  " + line, flush=True)
    return policy


def read(path):
    """The rules of a policy: by collective and overlap their ranges and what runs there."""
    rules = {}
    if not os.path.exists(path):
        return rules
    with open(path) as file:
        lines = [line.strip() for line in file if line.strip() and line[0] != "#"]
    names = lines[0].split(",") if lines else []
    for line in lines[1:]:
        row = dict(zip(names, line.split(",")))
        what = "/".join(row[name] for name in ("algorithm", "protocol", "channels", "memory",
                                               "min_ctas") if name in row)
        rules.setdefault((row["collective"], row.get("overlap", "")), []).append(
            (int(row["min_bytes"]), int(row["max_bytes"]), what))
    return rules


def has(rules, key, n_bytes):
    return any(low <= n_bytes <= high for low, high, _ in rules.get(key, []))


def compare(kind, policies):
    """Prints the ranges of all runs, and how many sizes differ by more than a step."""
    read_all = [read(policy + kind) for policy in policies]
    n = n_near = n_far = 0
    for key in sorted(set().union(*read_all)):
        print(f"  {kind[1:] or 'alone'} {key[0]} {'overlap ' + key[1] if key[1] else ''}")
        for i, rules in enumerate(read_all):
            print(f"    run {i}: " + "; ".join(f"{low} to {high} {what}" for low, high, what
                                               in rules.get(key, [])))
        for n_bytes in (2**(k / 4) for k in range(12, 121)):
            for a, b in itertools.permutations(read_all, 2):
                if not has(a, key, n_bytes):
                    continue
                n += 1
                if has(b, key, n_bytes):
                    continue
                near = has(b, key, n_bytes / STEP) or has(b, key, n_bytes * STEP)
                n_near += near
                n_far += not near
    print(f"  {kind[1:] or 'alone'}: of {n} pairs of sizes with a rule {n_near} differ by a step "
          f"at most, {n_far} by more", flush=True)
    return n_far


def main():
    o = parse()
    end = time.monotonic() + o.seconds
    os.makedirs(o.out, exist_ok=True)
    policies = [tune(o, i) for i in range(o.runs)]
    n_far = sum(compare(kind, policies) for kind in KINDS)
    left = end - time.monotonic()
    if not o.no_torch and left < 20:
        print(f"no time is left for torch_memory.py: {left:.0f} s")
    elif not o.no_torch:
        ranks = o.ranks or sum(name.startswith("nvidia") and name[6:].isdigit()
                               for name in os.listdir("/dev"))
        plugin = ["--plugin", o.plugin] if o.plugin else []
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone",
                        "--nproc-per-node", str(ranks), os.path.join(HERE, "torch_memory.py"),
                        "--policy", os.path.abspath(policies[-1]), *plugin,
                        "--mib", "1,2,4,8,16"], check=False, timeout=left)
    sys.exit(n_far > 0)


main()
