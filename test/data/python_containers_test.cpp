// SPDX-License-Identifier: Apache-2.0
// What Python's own libraries write is read to the bit (test/python/containers.py).
#include <cstdlib>
#include <sstream>

#include "data/picture_files.h"
#include "support/paths.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace {

// A Python with numpy and Pillow; "" where there is none.
std::string find_python() {
  const char* chosen = std::getenv("GANTRAIN_PYTHON");
  const std::string python = chosen != nullptr ? chosen : "python3";
  const std::string probe = shell_quote(python) + " -c 'import numpy, PIL' 2>/dev/null";
  return std::system(probe.c_str()) == 0 ? python : "";
}

}  // namespace

TEST_CASE("ContainersThatPythonWritesAreReadToTheBit") {
  const std::string python = find_python();
  if (python.empty()) {
    WARN("skipped: no Python with numpy and Pillow (GANTRAIN_PYTHON)");
    return;
  }
  const Scratch scratch;
  const std::string command = shell_quote(python) + " " + source_folder() +
                              "/test/python/containers.py " + shell_quote(scratch.path());
  REQUIRE(std::system(command.c_str()) == 0);
  std::istringstream index(read_file(scratch.path("index.txt")));
  std::string path;
  int64_t side = 0;
  int64_t channels = 0;
  int containers = 0;
  while (index >> path >> side >> channels) {
    CAPTURE(path);
    const auto data = open_dataset(at(scratch.path(path), side));
    REQUIRE(data->channels() == channels);
    std::string pixels;
    std::string classes;
    for (int64_t i = 0; i < data->size(); ++i) {
      const Image image = data->load(i);
      pixels.append(image.pixels.begin(), image.pixels.end());
      if (data->classes() > 0) classes += data->class_name(data->label(i)) + "\n";
    }
    CHECK(classes == read_file(scratch.path(path + ".classes")));
    CHECK((pixels == read_file(scratch.path(path + ".pixels"))));
    ++containers;
  }
  CHECK(containers == 12);
}

}  // namespace gantrain
