// SPDX-License-Identifier: Apache-2.0
#include "main/verbs.h"

namespace gantrain {

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> table = {
      train_verb(),
      generate_verb(),
      export_verb(),
      import_verb(),
      inspect_verb(),
      interpolate_verb(),
      metrics_verb(),
      nn_verb(),
      project_verb(),
      report_verb(),
      serve_verb(),
      slurm_verb(),
      presets_verb(),
      data_verb(),
      doctor_verb(),
      bench_verb(),
      help_verb(),
  };
  return table;
}

}  // namespace gantrain
