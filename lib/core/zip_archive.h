// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zip.h>

#include <memory>
#include <string>

namespace gantrain {

// Owners of libzip's handles.
struct CloseZipArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using ZipArchive = std::unique_ptr<zip_t, CloseZipArchive>;

struct CloseZipFile {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using ZipFile = std::unique_ptr<zip_file_t, CloseZipFile>;

// A zip archive that was opened for reading, or why it could not be.
struct OpenedZip {
  ZipArchive archive;  // null: it could not be opened
  int code = 0;        // libzip's, as ZIP_ER_NOZIP
  std::string reason;  // the same in words
};
inline OpenedZip open_zip_archive(const std::string& path) {
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
