"""Parquet and HDF5 files as 0.2 wrote them: they are still read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nopg.data import Dataset
from nopg.data.io.metadata import metadata_to_json
from nopg.data.io.tables import as_columns


def save(data: Dataset, path: Path) -> None:
    """Write `data` in the format of the name, by 0.2's writers where they are gone."""
    stored = metadata_to_json(data)
    if path.suffix == ".h5":
        import h5py

        with h5py.File(path, "w") as file:
            for name, array in data.arrays().items():
                file.create_dataset(name, data=array, compression="gzip")
            file.create_dataset("nopg", data=np.frombuffer(stored.encode(), np.uint8))
    elif path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.table(as_columns(data))
        parquet.write_table(table.replace_schema_metadata({"nopg": stored}), path)
    else:
        data.save(path)
