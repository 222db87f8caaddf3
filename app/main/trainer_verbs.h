// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "curation/requests.h"
#include "draw/requests.h"
#include "explore/requests.h"
#include "main/requests.h"
#include "measure/metrics_request.h"

namespace gantrain {

// Verbs that compute, each with what the thin program made of the command line. They return the
// exit status and throw UserError.

// Pictures from a trained generator, and an animation.
int generate(GenerateRequest request);
int interpolate(InterpolateRequest request);
// The real pictures nearest to generated ones, and the latents of given pictures.
int nearest(NearestRequest request);
int project(ProjectRequest request);
// Numbers for how near generated pictures come to real ones.
int metrics(const MetricsRequest& request);
// import_model() makes a model file of foreign weights.
int import_model(const ImportRequest& request);
// A folder for Python, with the generator, a program that draws with it and a model card.
int export_model(const ExportRequest& request);
// What is in a file or a run, printed to standard output.
int inspect_file(const InspectFileRequest& request);
int doctor(const DoctorRequest& request);
// A look at a data set, and a data set of prepared pictures.
int data_inspect(const InspectRequest& request);
int data_pack(const PackRequest& request);

}  // namespace gantrain
