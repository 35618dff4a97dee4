"""The laboratory: corruptions, the embedded world, datasets, evaluation.

The product never imports it: it registers its models, matchers and corruptions below by name.

Its folders, in import order: `corruptions`, `tangram`, `datasets`, `evaluation`, `figures`, `demo`,
`own_traffic`, `tuning`. All of the product may be imported. Needs the extra `lab`.
"""

from queryshift.support.registry import BUNDLED_MODELS, CORRUPTIONS, MATCHERS, SAMPLE_WORLDS

for _name in ("tangram", "tangram-clips", "tangram-edits"):
    BUNDLED_MODELS.add(_name, "queryshift.lab.tangram.model:load")
MATCHERS.add("TextEncoder", "queryshift.lab.tangram.matching:MATCHERS")
SAMPLE_WORLDS.add("tangram", "queryshift.lab.tangram.service_collection:TangramWorld")
CORRUPTIONS.add("names", "queryshift.lab.corruptions.names:NAMES")
CORRUPTIONS.add("find", "queryshift.lab.corruptions:find")
CORRUPTIONS.add("corrupt", "queryshift.lab.corruptions:corrupt")
