"""Clients of the store against PyTorch's own TCPStore.

    python3 store_torch.py PATH/store_peer

Exits with 77 where PyTorch is not installed.
"""

import os
import subprocess
import sys
from datetime import timedelta

try:
    from torch.distributed import TCPStore
except ImportError:
    sys.exit(77)

PEER = sys.argv[1]
LIMIT = timedelta(seconds=20)


def torch_store(use_libuv):
    return TCPStore("127.0.0.1", 0, None, True, timeout=LIMIT,
                    wait_for_workers=False, use_libuv=use_libuv)


def check_client(use_libuv):
    """Our client and a server of PyTorch."""
    store = torch_store(use_libuv)
    store.set("steptune/test/theirs", "torch")
    subprocess.run([PEER, "check", str(store.port)], check=True, timeout=60)
    assert store.get("steptune/test/k") == b"value"


def check_run(use_libuv):
    """A run that meets through the store of torchrun's agent, twice."""
    store = torch_store(use_libuv)
    store.set("of the job", "untouched")
    before = store.num_keys()
    for restart in range(2):
        ranks = [subprocess.Popen([PEER, "join"], env=dict(
            os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="4",
            LOCAL_WORLD_SIZE="4", MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(store.port), TORCHELASTIC_RUN_ID="none",
            TORCHELASTIC_RESTART_COUNT=str(restart),
            TORCHELASTIC_USE_AGENT_STORE="True")) for rank in range(4)]
        assert [rank.wait(60) for rank in ranks] == [0] * 4
    assert store.num_keys() == before, "a key was left in the job's store"
    assert store.get("of the job") == b"untouched"


for libuv in (False, True):
    check_client(libuv)
    check_run(libuv)
print("PyTorch's store understands our clients")
