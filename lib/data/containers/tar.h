// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/containers/source.h"
#include "data/pictures/dataset.h"

namespace gantrain {

// Whether a content begins as gzip, zstd, xz or bzip2 do.
bool is_compressed(std::string_view start);

// Returns the part itself, or its unpacked content where it is compressed. That lies in a temporary
// file without a name, in $TMPDIR or else /var/tmp or /tmp, so that every thread and forked process
// can read it at any place and nothing of it outlives them. It takes constant memory. Throws
// UserError(kInput) where the content is damaged, cut off, or so much larger than what it was
// packed to that it can be no data, UserError(kDisk) where the temporary file does not fit, and
// UserError(kStopped) where `stop` returns true.
FilePart unpacked(const FilePart& part, const StopCheck& stop = {});

// A regular file in a tar archive and where its content lies.
struct TarEntry {
  std::string name;    // with '/', without a leading "./"
  int64_t offset = 0;  // bytes before the content
  int64_t size = 0;    // bytes of the content
};

// Whether a content begins with the header of a tar archive (POSIX ustar, GNU, pax or the old form
// of 1979), by its checksum. 512 bytes are enough.
bool is_tar(std::string_view start);

// Reads all headers of an archive that is not compressed. Hidden files, links and devices are left
// out; of files of one name the last counts, as it does for tar. Throws UserError(kInput) that
// names the archive where it is damaged or cut off.
std::vector<TarEntry> read_tar_directory(const FilePart& archive);

// Opens the files of tar archives together, which may be compressed; compressed ones are unpacked
// first (unpacked()). If two archives hold files of one name, each path begins with the name of
// its archive, and with the archive's folders where these names are alike. Throws UserError(kInput)
// that names the archive.
std::unique_ptr<Source> open_tars(const std::vector<std::string>& paths,
                                  const StopCheck& stop = {});

}  // namespace gantrain
