"""What ours are compared with: PWIS and DPG written here, bridges to other libraries.

The bridges import their libraries when called; `sb3` needs the extra `baselines`, `d3`
the extra `offline-baselines`.
"""

from reproduction.baselines.d3 import train_d3
from reproduction.baselines.dpg import DpgConfig, QuadraticCritic, train_dpg
from reproduction.baselines.progress import Progress, Update, acting
from reproduction.baselines.pwis import pwis_objective, train_pwis
from reproduction.baselines.sb3 import DdpgConfig, ddpg_offline, ddpg_online
from reproduction.baselines.trajectories import Trajectories

__all__ = [
    "DdpgConfig",
    "DpgConfig",
    "Progress",
    "QuadraticCritic",
    "Trajectories",
    "Update",
    "acting",
    "ddpg_offline",
    "ddpg_online",
    "pwis_objective",
    "train_d3",
    "train_dpg",
    "train_pwis",
]
