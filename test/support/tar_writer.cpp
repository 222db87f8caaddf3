// SPDX-License-Identifier: Apache-2.0
#include "support/tar_writer.h"

#include <archive.h>
#include <archive_entry.h>

#include <stdexcept>

#include "data/scratch.h"

namespace gantrain {

std::string write_tar(const std::vector<std::pair<std::string, std::string>>& entries,
                      const TarForm& form) {
  const Scratch scratch;
  archive* writer = archive_write_new();
  const auto check = [&](int code) {
    if (code < ARCHIVE_WARN) throw std::runtime_error(archive_error_string(writer));
  };
  check(archive_write_set_format_by_name(writer, form.form.c_str()));
  if (form.filter != "none") check(archive_write_add_filter_by_name(writer, form.filter.c_str()));
  check(archive_write_open_filename(writer, scratch.path("a.tar").c_str()));
  for (const auto& [name, content] : entries) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_pathname_utf8(entry, name.c_str());
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, static_cast<la_int64_t>(content.size()));
    check(archive_write_header(writer, entry));
    archive_write_data(writer, content.data(), content.size());
    archive_entry_free(entry);
  }
  check(archive_write_close(writer));
  archive_write_free(writer);
  return read_file(scratch.path("a.tar"));
}

}  // namespace gantrain
