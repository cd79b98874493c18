"""Transitions: the dataset, its files, its description, and new ones from old."""

from nopg.data.dataset import Dataset
from nopg.data.diagnostics.memory import find_memory
from nopg.data.io.memory import from_d3rlpy, from_sb3, from_table
from nopg.data.io.rollouts import from_env
from nopg.data.sampling import merge, split_episodes, thin_by_coverage
from nopg.data.transforms import angle_to_sine_cosine, select, with_column, with_rewards

__all__ = [
    "Dataset",
    "angle_to_sine_cosine",
    "find_memory",
    "from_d3rlpy",
    "from_env",
    "from_sb3",
    "from_table",
    "merge",
    "select",
    "split_episodes",
    "thin_by_coverage",
    "with_column",
    "with_rewards",
]
