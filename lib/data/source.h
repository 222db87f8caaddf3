// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/file_mark.h"
#include "data/labels.h"
#include "data/random_access_file.h"
#include "image/image.h"

namespace gantrain {

// Larger files are refused before they are read: no picture needs as much.
inline constexpr int64_t kMaxFileBytes = int64_t{1} << 28;

// The files of a folder or archive, or the records of a data file, by position. Immutable; every
// member may be called from any thread, also in a process forked later.
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

  // Returns where the content lies unchanged in a file of the file system; nothing where it must be
  // unpacked. Throws UserError(kInput) that names what cannot be opened.
  virtual std::optional<FilePart> part(size_t) const { return std::nullopt; }

  // Whether the file is meant to be a picture. Here its name says so; in some containers each is.
  virtual bool is_picture(size_t file) const;
  // Whether its files are records of pixels, which no decoder understands, whatever they begin
  // with.
  virtual bool holds_pixels() const { return false; }
  // Decodes a picture over `image`, as decode_image() does; `bytes` is memory for the content of
  // its file, used again. Records of pixels need no decoder. Throws UserError(kInput) that names
  // the file.
  virtual void decode(size_t file,
                      const NeededSize& needed,
                      std::string& bytes,
                      Image& image) const;
  // Returns size and channels of a picture, after checking, unless `headers_only`, that decode()
  // would not throw. Throws UserError(kInput) that names the file.
  virtual ImageInfo look(size_t file, bool headers_only) const;

  // Returns the class of every file where the container itself has labels, else no labels.
  virtual Labels labels() const { return {}; }
  // Returns how many leading folders of each path stand for parts of the container, not for
  // classes.
  virtual size_t own_folders() const { return 0; }
  // Returns words for the description of a data set: "CIFAR-10", "12 shards"; "" for plain ones.
  virtual std::string kind() const { return ""; }

  // Returns what tells two contents of a file apart. Here all of it is read, or 128 KiB of a file
  // of more than 4 MiB where part() has it; an archive with checksums overrides it. Throws
  // UserError(kInput) as read() does.
  virtual FileMark mark(size_t file) const;
  // Returns a text that is another one after every change of the content, from the file system's
  // notes alone (stamp_of() in data/file_mark.h), or "" where there is no such thing.
  virtual std::string stamp(size_t file) const;
};

// Opens what options.path names: a folder or zip of pictures, tar archives, an LMDB, CIFAR's or
// MNIST's files. Which of these it is, is decided by the content. Of an LMDB that has every picture
// in several sizes it takes the one for options.resolution. Throws UserError(kInput) that names the
// path, and what is taken where it is none of these, UserError(kStopped) where `stop` returns true
// while an archive is unpacked.
std::unique_ptr<Source> open_source(const DataOptions& options, const StopCheck& stop = {});

// Opens every file below `path` and follows links. Folders of runs inside it are left out with a
// message. Throws UserError(kInput) that names what cannot be read.
std::unique_ptr<Source> open_folder(const std::string& path);

// Opens every entry of a zip archive, stored or deflated. Throws UserError(kInput) that names the
// archive.
std::unique_ptr<Source> open_zip(const std::string& path);

// Writes the whole of a part over `bytes`. Throws UserError(kInput) that names it where it is
// larger than kMaxFileBytes or cut off.
void read_part(const FilePart& part, std::string& bytes);

// Whether a part of the path begins with a dot or is macOS' "__MACOSX".
bool is_hidden(std::string_view path);

}  // namespace gantrain
