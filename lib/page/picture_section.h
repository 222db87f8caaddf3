// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "page/pictures.h"
#include "page/run_record.h"

namespace gantrain {

// Returns the section of pictures as HTML: real pictures beside the latest samples, and the
// time-lapse of the sample grids with its slider. "" where there are none.
std::string picture_section(const RunRecord& run, EmbeddedPictures& store);

// Returns a figure of one grid with the names of its rows, or "" if there is no picture. The
// caption is HTML.
std::string grid_figure(const RunRecord& run,
                        const std::string& name,
                        const std::string& caption_html,
                        const std::optional<std::string>& url);

}  // namespace gantrain
