"""wheel_pack.py INSTALLED VERSION OUT - makes a Python wheel out of an installation.

INSTALLED is a prefix with bin/, lib/ and share/ that ./ci/wheel made.  Programs and
libraries there must need no glibc above 2.28: where this machine's glibc has given a
function a new version (dlopen, say, which moved into libc.so.6 in 2.34), references
are turned to the version that 2.28 has, which every later one keeps."""
import base64
import hashlib
import os
import re
import struct
import subprocess
import sys
import zipfile

NEWEST = (2, 28)
TAG = "py3-none-manylinux_2_28_x86_64"
MAIN = '''"""Runs the command: `python3 -m steptune --help` says what there is."""
import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "steptune")
    os.execv(program, ["steptune"] + sys.argv[1:])


if __name__ == "__main__":
    main()
'''


def is_newer(version):
    found = re.fullmatch(rb"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
    return found and (int(found[1]), int(found[2])) > NEWEST


def elf_hash(name):
    h = 0
    for c in name:
        h = (h << 4) + c
        h = (h ^ (h & 0xF0000000) >> 24) & 0x0FFFFFFF
    return h


def versions_here(library):
    """The versions of each function that the library of this machine has."""
    out = subprocess.run(["objdump", "-T", library], capture_output=True, check=True).stdout
    here = {}
    for version, name in re.findall(rb"\s\(?(GLIBC_[0-9.]+)\)?\s+(\w+)$", out, re.M):
        here.setdefault(name, set()).add(version)
    return here


def age_references(path, data):
    """Turns references to newer versions of glibc to those of GLIBC_2.2.5, or where a
    function came later to any version: its oldest is the one that is found."""
    data = bytearray(data)
    e_shoff, = struct.unpack_from("<Q", data, 0x28)
    e_shentsize, e_shnum, e_shstrndx = struct.unpack_from("<HHH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, e_shoff + i * e_shentsize) for i in range(e_shnum)]
    names = sections[e_shstrndx][4]

    def text(at):
        return bytes(data[at:data.index(0, at)])

    by_name = {text(names + s[0]): s for s in sections}
    if b".gnu.version_r" not in by_name:
        return bytes(data)
    dynstr = by_name[b".dynstr"][4]
    newer, at, oldest = {}, by_name[b".gnu.version_r"][4], None
    for _ in range(by_name[b".gnu.version_r"][7]):
        _, count, file, aux, following = struct.unpack_from("<HHIII", data, at)
        entry = at + aux
        for _ in range(count):
            _, _, index, name, step = struct.unpack_from("<IHHII", data, entry)
            version = text(dynstr + name)
            if version == b"GLIBC_2.2.5":
                oldest = name
            if is_newer(version):
                newer[index] = (entry, text(dynstr + file).decode())
            entry += step
        at += following
    if newer and oldest is None:
        sys.exit(f"{path}: no reference to GLIBC_2.2.5, which newer ones could be turned to")
    for entry, _ in newer.values():
        struct.pack_into("<I", data, entry, elf_hash(b"GLIBC_2.2.5"))
        struct.pack_into("<I", data, entry + 8, oldest)
    symbols, versions = by_name[b".dynsym"][4], by_name[b".gnu.version"][4]
    for i in range(by_name[b".dynsym"][5] // 24):
        index, = struct.unpack_from("<H", data, versions + 2 * i)
        if index not in newer:
            continue
        name = text(dynstr + struct.unpack_from("<I", data, symbols + 24 * i)[0])
        have = versions_here.cached.setdefault(newer[index][1], None)
        if have is None:
            have = versions_here.cached[newer[index][1]] = versions_here(f"/lib/x86_64-linux-gnu/{newer[index][1]}")
        if all(is_newer(v) for v in have[name]):
            sys.exit(f"{path}: needs {name.decode()} of a glibc above 2.28, "
                     "expected it to be defined in ci/wheel_glibc.c")
        if b"GLIBC_2.2.5" not in have[name]:
            struct.pack_into("<H", data, versions + 2 * i, 1)
    return bytes(data)


versions_here.cached = {}


def main(installed, version, out):
    info = f"steptune-{version}.dist-info"
    files = {}  # name in the wheel -> bytes and whether it is run

    for folder, _, names in os.walk(installed):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as f:
                data = f.read()
            if data[:4] == b"\x7fELF":
                data = age_references(path, data)
            inside = os.path.relpath(path, installed)
            if inside.startswith(("share/man/", "share/bash-completion/", "share/zsh/")):
                inside = f"steptune-{version}.data/data/{inside}"
            elif inside == "share/steptune/python/steptune_memory.py":
                inside = "steptune_memory.py"
            else:
                inside = f"steptune/{inside}"
            files[inside] = (data, os.access(path, os.X_OK) and data[:4] == b"\x7fELF")
    files["steptune/__init__.py"] = (b"", False)
    files["steptune/__main__.py"] = (MAIN.encode(), False)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(here, "README.md"), encoding="utf-8") as f:
        readme = f.read()
    with open(os.path.join(here, "LICENSE"), "rb") as f:
        files[f"{info}/licenses/LICENSE"] = (f.read(), False)
    files[f"{info}/METADATA"] = ((
        f"Metadata-Version: 2.1\nName: steptune\nVersion: {version}\n"
        "Summary: Makes NCCL choose what gives the shortest training step\n"
        "License: Apache-2.0\nRequires-Python: >=3.8\n"
        "Description-Content-Type: text/markdown\n\n" + readme).encode(), False)
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: ci/wheel\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode(), False)
    files[f"{info}/entry_points.txt"] = (b"[console_scripts]\nsteptune = steptune.__main__:main\n", False)
    record = ""
    for name, (data, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), False)
    wheel = os.path.join(out, f"steptune-{version}-{TAG}.whl")
    with zipfile.ZipFile(wheel + ".new", "w", zipfile.ZIP_DEFLATED) as z:
        for name, (data, is_run) in sorted(files.items(), key=lambda f: (f[0].startswith(info), f[0])):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if is_run else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
    os.rename(wheel + ".new", wheel)
    print(wheel)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
