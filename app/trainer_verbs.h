// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench_requests.h"
#include "draw/requests.h"
#include "verb_requests.h"

namespace gantrain {

// Verbs that compute, each with what the thin program made of the command line. They return the
// exit status and throw UserError.

// Pictures from a trained generator, and an animation.
int generate(GenerateRequest request);
int interpolate(InterpolateRequest request);
// import_model() makes a model file of foreign weights.
int import_model(const ImportRequest& request);
int describe(const DescribeRequest& request);
int doctor(const DoctorRequest& request);
int bench_ddp(const BenchDdpRequest& request);
int bench_step(const BenchStepRequest& request);
int bench_ops(const BenchOpsRequest& request);
int bench_data(const BenchDataRequest& request);
int bench_save(const BenchSaveRequest& request);

}  // namespace gantrain
