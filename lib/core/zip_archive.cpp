// SPDX-License-Identifier: Apache-2.0
#include "core/zip_archive.h"

namespace gantrain {

OpenedZip open_zip_archive(const std::string& path) {
  OpenedZip opened;
  opened.archive.reset(zip_open(path.c_str(), ZIP_RDONLY, &opened.code));
  if (opened.archive) return opened;
  zip_error_t error;
  zip_error_init_with_code(&error, opened.code);
  opened.reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  return opened;
}

}  // namespace gantrain
