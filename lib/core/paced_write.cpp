// SPDX-License-Identifier: Apache-2.0
#include "core/paced_write.h"

#include <algorithm>

namespace gantrain {

void write_paced(AtomicFile& file, const void* data, size_t bytes, const BetweenWrites& between) {
  constexpr size_t kPiece = size_t{4} << 20;
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const size_t piece = std::min(bytes, kPiece);
    file.write(from, piece);
    if (between) between();
    from += piece;
    bytes -= piece;
  }
}

}  // namespace gantrain
