"""What the tests of the API share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sssp_pipeline.base.errors import SsspError


@pytest.fixture(scope="session")
def error_of() -> Callable[..., SsspError]:
    """Give a function that returns the error that a call raises."""

    def raised(call: Callable[..., Any], *arguments: Any, **options: Any) -> SsspError:
        with pytest.raises(SsspError) as caught:
            call(*arguments, **options)
        assert caught.value.args == (caught.value.message,)
        assert caught.value.hint
        return caught.value

    return raised
