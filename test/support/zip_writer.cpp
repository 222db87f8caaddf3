// SPDX-License-Identifier: Apache-2.0
#include "support/zip_writer.h"

#include <zip.h>

#include <stdexcept>

#include "data/scratch.h"

namespace gantrain {

std::string write_zip(const std::vector<std::pair<std::string, std::string>>& entries,
                      bool deflated) {
  const Scratch scratch;
  int code = 0;
  zip_t* archive = zip_open(scratch.path("a.zip").c_str(), ZIP_CREATE, &code);
  if (archive == nullptr) throw std::runtime_error("zip_open");
  for (const auto& [name, content] : entries) {
    zip_source_t* source = zip_source_buffer(archive, content.data(), content.size(), 0);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) throw std::runtime_error(zip_strerror(archive));
    zip_set_file_compression(
        archive, static_cast<zip_uint64_t>(index), deflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
  }
  if (zip_close(archive) != 0) throw std::runtime_error(zip_strerror(archive));
  return read_file(scratch.path("a.zip"));
}

}  // namespace gantrain
