"""What a user does first with each extra, as small programs.

One table with two readers: `check_install.py` runs each program in a clean environment
with and without the extra; a test runs each with the extra's packages hidden. With them
a program works, without them it ends in one sentence that names the extra.
"""

from __future__ import annotations

from dataclasses import dataclass

TOOLS = ("dev", "docs", "machines")
"""Extras for working on the library and simulators of figures; no feature of it needs
them."""

DATA = """
from nopg.cli.swing_up import grid_dataset
data = grid_dataset(3, 3)
"""

POLICY = (
    DATA
    + """
import nopg
model = nopg.NOPG(gamma=0.97, hidden=(8,))
policy = model.fit(data, [-1.0, 0.0, 0.0], n_updates=2, progress=False)
"""
)

RUN = """
from pathlib import Path
import nopg
from nopg.cli.swing_up import grid_dataset
from nopg.runs import Monitoring, start
start("run", nopg.NOPG(gamma=0.97, hidden=(8,)), grid_dataset(3, 3), [-1.0, 0.0, 0.0],
      n_updates=2, monitoring=Monitoring(tensorboard=True, progress=False))
"""


@dataclass(frozen=True)
class FirstUse:
    """One feature behind an extra."""

    extra: str
    """The extra that brings it."""
    feature: str
    """What the user gets."""
    packages: tuple[str, ...]
    """The packages without which it cannot work."""
    program: str
    """Python that uses it, with an assertion on what comes out."""


FIRST_USES = (
    FirstUse(
        "plots",
        "an animation",
        ("PIL", "pygame"),
        """
from pathlib import Path
import numpy as np
from nopg.cli.swing_up import animate
from nopg.cli.swing_up import SwingUp
still = np.tile([3.1, 0.0], (5, 1))
animate(SwingUp(still, np.zeros((4, 1)), np.zeros(4)), Path("a.gif"))
assert Path("a.gif").read_bytes().startswith(b"GIF89a")
""",
    ),
    FirstUse(
        "data",
        "Parquet",
        ("pyarrow",),
        DATA
        + """
from contextlib import suppress
from pathlib import Path
from nopg import DataError, Dataset
Path("log.parquet").write_bytes(b"")
with suppress(DataError):  # whose packages are asked for first
    Dataset.load("log.parquet")
import pyarrow
from pyarrow import parquet
x, u = data.observations[:, 2], data.actions[:, 0]
parquet.write_table(pyarrow.table({"x": x, "u": u, "r": data.rewards}), "log.parquet")
assert len(Dataset.load("log.parquet", is_discrete=False)) == 17
""",
    ),
    FirstUse(
        "data",
        "HDF5",
        ("h5py",),
        DATA
        + """
from contextlib import suppress
from pathlib import Path
from nopg import DataError, Dataset
Path("log.h5").write_bytes(b"")
with suppress(DataError):
    Dataset.load("log.h5")
import h5py
with h5py.File("log.h5", "w") as file:
    for name, array in data.arrays().items():
        file[name] = array
assert len(Dataset.load("log.h5")) == 18
""",
    ),
    FirstUse(
        "minari",
        "a Minari dataset",
        ("minari", "h5py", "PIL"),
        """
import os
os.environ["MINARI_DATASETS_PATH"] = os.path.abspath("minari")
import numpy as np
from gymnasium.spaces import Box
from nopg import DataError, Dataset
try:
    Dataset.load("check/zeros-v0")
except DataError:
    pass  # there is none yet
import minari
from minari.data_collector.episode_buffer import EpisodeBuffer
ends = np.arange(18) == 17
buffer = EpisodeBuffer(
    observations=np.zeros((19, 1)), actions=np.zeros((18, 1)), rewards=np.zeros(18),
    terminations=ends, truncations=ends, infos={},
)
space = Box(-1.0, 1.0, (1,), np.float64)
spaces = {"observation_space": space, "action_space": space}
minari.create_dataset_from_buffers("check/zeros-v0", [buffer], **spaces)
assert len(Dataset.load("check/zeros-v0")) == 18
""",
    ),
    FirstUse(
        "mcap",
        "an MCAP file",
        ("mcap", "mcap_ros2"),
        """
from pathlib import Path
from nopg import DataError, Dataset
Path("bag.mcap").write_bytes(b"no bag")
try:
    Dataset.load("bag.mcap")
except DataError as error:
    assert "must be an MCAP file" in str(error)
""",
    ),
    FirstUse(
        "record",
        "the recorder's page",
        ("websockets",),
        """
from pathlib import Path
from urllib.request import urlopen
from nopg.record import RecordConfig, record
config = RecordConfig(environment="nopg/PendulumSwingUp-v0", out=Path("demo.npz"))
pages = []
def look(address):
    pages.append(urlopen(address.split("#")[0]).read().decode())
    raise KeyboardInterrupt  # as Ctrl-C ends it
record(config, show=look)
assert "nopg record" in pages[0]
""",
    ),
    FirstUse(
        "record",
        "frames for the page",
        ("PIL",),
        """
import numpy as np
from nopg.record.simulator import as_jpeg
assert as_jpeg(np.zeros((8, 8, 3), dtype=np.uint8)).startswith(b"\\xff\\xd8")
""",
    ),
    FirstUse(
        "record",
        "Gymnasium's own scenes",
        ("pygame",),
        """
from nopg.record.simulator import Simulator
simulator = Simulator("MountainCarContinuous-v0")
simulator.reset(0)
assert simulator.frame().shape[2] == 3
""",
    ),
    FirstUse(
        "baselines",
        "DDPG",
        ("stable_baselines3",),
        DATA
        + """
from reproduction.baselines.sb3 import DdpgConfig, ddpg_offline
rates = {"actor_learning_rate": 1e-2, "critic_learning_rate": 1e-2, "tau": 1e-3}
config = DdpgConfig(gamma=0.97, hidden=(8,), batch_size=8, **rates)
assert list(ddpg_offline(data, config, n_updates=2, report_every=1, seed=0))
""",
    ),
    FirstUse(
        "offline-baselines",
        "behavioural cloning",
        ("d3rlpy",),
        DATA
        + """
from reproduction.baselines.d3 import train_d3
assert list(train_d3("BC", data, gamma=0.97, n_updates=2, report_every=1, seed=0))
""",
    ),
    FirstUse(
        "gpu",
        "GPU kernels (imported; running them needs a GPU)",
        ("triton",),
        "import nopg.gpu.rows",
    ),
    FirstUse(
        "experiments",
        "worker processes",
        ("joblib",),
        """
from reproduction.workers import Deadline, in_parallel
if __name__ in ("__main__", "first_use"):
    assert sorted(in_parallel(abs, [-2, -1], 2, Deadline())) == [1, 2]
""",
    ),
    FirstUse(
        "export",
        "a policy as ONNX",
        ("onnx", "onnxscript", "onnxruntime"),
        POLICY
        + """
from nopg.export import export_policy
assert export_policy(policy, "policy.onnx").path.stat().st_size > 500
""",
    ),
    FirstUse(
        "video",
        "a film of an episode",
        ("moviepy",),
        POLICY
        + """
from pathlib import Path
from nopg.runs.evaluation import evaluate
found = evaluate(policy, "nopg/PendulumSwingUp-v0", 1, videos=Path("films"))
assert (Path("films") / found.videos[0]).stat().st_size > 1000
""",
    ),
    FirstUse(
        "tensorboard",
        "curves in TensorBoard",
        ("tensorboard",),
        RUN
        + """
assert list((Path("run") / "tensorboard").glob("events.*"))
""",
    ),
)
