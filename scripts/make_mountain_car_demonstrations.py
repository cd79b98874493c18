"""Write the ten scripted mountain-car demonstrations of the reproduction.

    python -m scripts.make_mountain_car_demonstrations

The operator is described in `reproduction.tasks.scripted_operator`; the same seed gives
the same file.
"""

from pathlib import Path

from reproduction.envs.mountain_car import MountainCar
from reproduction.tasks import scripted_operator

import nopg

TARGET = Path(scripted_operator.__file__).with_name("mountain_car_scripted.npz")

if __name__ == "__main__":
    demonstrations = nopg.Dataset(
        *scripted_operator.scripted_demonstrations(),
        observation_names=MountainCar.observation_names,
        action_names=MountainCar.action_names,
        action_space=MountainCar().action_space,
    )
    demonstrations.save(TARGET)
