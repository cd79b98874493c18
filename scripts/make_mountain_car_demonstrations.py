"""Write the ten scripted mountain-car demonstrations shipped with the package.

    python scripts/make_mountain_car_demonstrations.py

The operator is described in reproduction.tasks.scripted_operator; the same seed gives the
same file.
"""

from pathlib import Path

from reproduction.tasks.scripted_operator import scripted_demonstrations

import nopg
import nopg.envs
from nopg.envs.mountain_car import MountainCar

TARGET = Path(nopg.envs.__file__).parent / "mountain_car_scripted.npz"

if __name__ == "__main__":
    demonstrations = nopg.Dataset(
        *scripted_demonstrations(),
        observation_names=MountainCar.observation_names,
        action_names=MountainCar.action_names,
        action_space=MountainCar().action_space,
    )
    demonstrations.save(TARGET)
