"""The program under test."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session")
def program() -> str:
    return os.environ["FEWSTEP_BINARY"]
