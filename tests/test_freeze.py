"""A refactoring leaves every output as it was: ``pytest -m freeze``, against HEAD or the commit that FREEZE names."""

from __future__ import annotations

import os

import pytest

from tests.freeze import compare


@pytest.mark.freeze
def test_all_outputs_are_those_of_another_commit() -> None:
    assert compare(os.environ.get("FREEZE", "HEAD")) == []
