"""Write down what the base model's source holds now, so that DVC notices a model that was replaced in place."""

from __future__ import annotations

from pipeline import params, plugins, store
from pipeline.errors import UserError
from pipeline.stages import _main


def main() -> None:
    kind, wanted = params.load().model.source_settings()
    source = plugins.load("pipeline.sources", kind)
    settings = source.Settings.model_validate(wanted)
    found = source.problems(settings)
    if found:
        raise UserError(found)
    written = {"source": source.describe(settings), "revision": source.revision(settings)}
    store.write_json(store.SOURCE, written)


if __name__ == "__main__":
    _main.run(main)
