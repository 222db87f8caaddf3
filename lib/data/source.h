// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// Files by position, wherever they lie. Immutable; every member may be called from any thread, and
// from a process forked since.
class Source {
 public:
  virtual ~Source() = default;

  // Relative paths with '/', sorted bytewise, without hidden files.
  virtual const std::vector<std::string>& files() const = 0;
  // Whole content. Throws UserError(kInput) naming the file.
  virtual std::string read(size_t file) const = 0;
  // What to call the file in messages.
  virtual std::string name(size_t file) const = 0;
};

// Every file below `path`, links followed. Throws UserError(kInput) naming what cannot be read.
std::unique_ptr<Source> open_folder(const std::string& path);

// Every entry of a zip archive, stored or deflated. Throws UserError(kInput) naming the archive.
std::unique_ptr<Source> open_zip(const std::string& path);

// True where a part of the path begins with a dot, or is macOS' "__MACOSX".
bool is_hidden(std::string_view path);

}  // namespace gantrain
