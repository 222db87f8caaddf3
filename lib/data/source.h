// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// The files of a folder or archive, by position. Immutable; every member may be called from any
// thread, also in a process forked later.
class Source {
 public:
  virtual ~Source() = default;

  // Returns relative paths with '/', sorted bytewise, without hidden files.
  virtual const std::vector<std::string>& files() const = 0;
  // Writes the whole content over `bytes`, whose memory is used again. Throws UserError(kInput)
  // that names the file.
  virtual void read(size_t file, std::string& bytes) const = 0;
  // Returns the file's name for messages.
  virtual std::string name(size_t file) const = 0;
};

// Opens every file below `path` and follows links. Throws UserError(kInput) that names what cannot
// be read.
std::unique_ptr<Source> open_folder(const std::string& path);

// Opens every entry of a zip archive, stored or deflated. Throws UserError(kInput) that names the
// archive.
std::unique_ptr<Source> open_zip(const std::string& path);

// Whether a part of the path begins with a dot or is macOS' "__MACOSX".
bool is_hidden(std::string_view path);

}  // namespace gantrain
