"""Tunes the GPUs of a machine at Modal: modal run ci/cluster/modal_app.py

ends with steptune.conf and steptune.report.html in OUT, here.
"""
import pathlib
import subprocess

import modal

GPU = "A100-80GB:8"  # CHANGE: the kind of GPU, and how many
MINUTES = 60  # CHANGE: after which it is stopped, and paid no more
OUT = pathlib.Path("steptune-modal")  # CHANGE: a folder

app = modal.App("steptune")
HERE = pathlib.Path(__file__).resolve()
# Within the image, where this file is read as well, there is no repository.
image = modal.Image.from_dockerfile(
    HERE.with_name("Dockerfile"),
    context_dir=HERE.parents[2] if modal.is_local() else HERE.parent,
    add_python="3.12",
).entrypoint([])


@app.function(image=image, gpu=GPU, timeout=60 * MINUTES)
def tune():
    """The files of a tune: {name: content}."""
    subprocess.run(["steptune", "tune", "-o", "steptune.conf"], cwd="/out", check=True)
    return {f.name: f.read_bytes() for f in pathlib.Path("/out").iterdir() if f.is_file()}


@app.local_entrypoint()
def main():
    """Saves them."""
    files = tune.remote()
    OUT.mkdir(exist_ok=True)
    for name, content in files.items():
        (OUT / name).write_bytes(content)
    print(OUT / "steptune.conf", OUT / "steptune.report.html")
