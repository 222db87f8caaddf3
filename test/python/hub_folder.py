# SPDX-License-Identifier: Apache-2.0
"""hub_folder.py FOLDER CARDS...: a folder of gantrain export --to hf, as huggingface_hub reads it, without a network.

CARDS are words of JSON that the metadata of the card have to hold: {"tags": [...], ...}; "metrics" is {type: value}, "dataset"
the name of the data that they were measured with.
"""

import json
import sys
from pathlib import Path

sys.modules["hf_xet"] = None  # uploads alone need it
from huggingface_hub import HfApi, ModelCard  # noqa: E402
from huggingface_hub.repocard_data import model_index_to_eval_results  # noqa: E402

folder = Path(sys.argv[1])
card = ModelCard.load(folder / "README.md")
data = card.data.to_dict()
assert data["library_name"] == "gantrain", data
assert data["pipeline_tag"] == "unconditional-image-generation", data
assert {"gan", "gantrain"} <= set(data["tags"]), data
text = (folder / "README.md").read_text(encoding="utf-8")
assert text.endswith(card.text) and "license" not in data

results = []
if "model-index" in data:
    name, results = model_index_to_eval_results(data["model-index"])
    assert name and all(r.task_type == data["pipeline_tag"] for r in results)
    assert all(isinstance(r.metric_value, (int, float)) for r in results)
for word in sys.argv[2:]:
    for key, wanted in json.loads(word).items():
        if key == "metrics":
            got = {r.metric_type: r.metric_value for r in results}
        else:
            got = results[0].dataset_name if key == "dataset" else data[key]
        assert got == wanted, (key, got, wanted)

# What the user fills in is a licence then.
filled = text.replace("\n# license: cc-by-4.0 #", "\nlicense: cc-by-4.0 #")
assert ModelCard(filled).data.license == "cc-by-4.0"

# What an upload would send: every file, each with its size and digest.
HfApi._validate_yaml = lambda *_, **__: None  # the site's own check, of which offline only the reading above is known
additions = HfApi()._prepare_upload_folder_additions(folder, path_in_repo="")
sent = {a.path_in_repo: a.upload_info for a in additions}
assert set(sent) == {"README.md", "config.json", "grid.png", "model.py", "model.safetensors", "self_test.json"}, set(sent)
assert all(info.size > 0 and len(info.sha256) == 32 for info in sent.values())
assert sent["model.safetensors"].size == (folder / "model.safetensors").stat().st_size
config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
assert config["format"] == "gantrain-generator" and config["recipe"]
