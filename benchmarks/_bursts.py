"""A neighbour for `paired_noise.py`: loads the machine in bursts of random length until it is killed."""

from __future__ import annotations

import time
from random import Random

import numpy

random = Random(1)
matrix = numpy.random.default_rng(1).normal(size=(1024, 1024))
while True:
    end = time.monotonic() + random.uniform(0.2, 2)
    while time.monotonic() < end:
        matrix @ matrix
    time.sleep(random.uniform(0.2, 3))
