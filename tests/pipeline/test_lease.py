import pytest

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.lease import exclusive


def files_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_a_folder_is_held_by_one_process_alone(tmp_path):
    url = str(tmp_path / "run")
    with exclusive(url):
        with pytest.raises(InputError) as caught, exclusive(url):
            pass
        (tmp_path / "run" / "file").touch()
    assert caught.value.message == f"another process is writing to `{url}`"
    with exclusive(url):
        pass
    assert files_below(tmp_path) == ["run", "run/file"]
