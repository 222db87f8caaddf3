// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/config.h"
#include "distributed/options.h"
#include "train/options.h"

namespace gantrain {

// The sections of a configuration that control a run.
struct RunConfig {
  explicit RunConfig(const Config& config)
      : train(config.read<TrainOptions>("train.")),
        save(config.read<SaveOptions>("save.")),
        samples(config.read<SampleOptions>("samples.")),
        metrics(config.read<MetricsOptions>("metrics.")),
        run(config.read<RunOptions>("run.")),
        dist(config.read<DistOptions>("dist.")) {}

  TrainOptions train;
  SaveOptions save;
  SampleOptions samples;
  MetricsOptions metrics;
  RunOptions run;
  DistOptions dist;
};

}  // namespace gantrain
