"""Write down the machine and the packages that decide speed; runs at every `dvc repro`."""

from __future__ import annotations

import platform

from pipeline import checkpoint, records, store
from pipeline.probes import hardware
from pipeline.records import Environment
from pipeline.stages import _main

PACKAGES = ("torch", "transformers", "accelerate", "bitsandbytes", "gptqmodel", "optimum", "numpy")


def main() -> None:
    gpus, reason = hardware.gpus()
    environment = Environment(
        os=f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        python=platform.python_version(),
        cpu=hardware.cpu_name(),
        cpu_cores=hardware.cpu_cores(),
        memory_bytes=hardware.memory_bytes(),
        gpus=gpus,
        gpu_reason=reason,
        packages=checkpoint.package_versions(PACKAGES),
    )
    records.save(store.ENVIRONMENT, environment)


if __name__ == "__main__":
    _main.run(main)
