// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command/options.h"

namespace gantrain {

Verb train_verb();
Verb join_verb();
Verb generate_verb();
Verb export_verb();
Verb import_verb();
Verb inspect_verb();
Verb interpolate_verb();
Verb metrics_verb();
Verb features_verb();
Verb average_verb();
Verb nn_verb();
Verb project_verb();
Verb edit_verb();
Verb report_verb();
Verb serve_verb();
Verb slurm_verb();
Verb kube_verb();
Verb launch_verb();
Verb track_verb();
Verb tune_verb();
Verb finetune_verb();
Verb presets_verb();
Verb data_verb();
Verb doctor_verb();
Verb bench_verb();
Verb help_verb();

// All of them, in the order of `gantrain --help`.
const std::vector<Verb>& verbs();

}  // namespace gantrain
