// SPDX-License-Identifier: Apache-2.0
// How torch pickles tensors and their storages.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/archive.h"
#include "core/torch.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

namespace {

using Kind = PickleKind;

constexpr std::pair<const char*, at::ScalarType> kStorageTypes[] = {
    {"torch.FloatStorage", at::kFloat},
    {"torch.HalfStorage", at::kHalf},
    {"torch.BFloat16Storage", at::kBFloat16},
    {"torch.DoubleStorage", at::kDouble},
    {"torch.LongStorage", at::kLong},
    {"torch.IntStorage", at::kInt},
    {"torch.ShortStorage", at::kShort},
    {"torch.CharStorage", at::kChar},
    {"torch.ByteStorage", at::kByte},
    {"torch.BoolStorage", at::kBool},
    {"torch.storage.UntypedStorage", at::kByte},
};

constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr int64_t kProtocol = 1001;

// One of the stream's pickles, and the content behind it.
Pickle next_pickle(std::string_view& content, const PickleRules& rules) {
  Pickle pickle = parse_pickle(content, rules);
  content.remove_prefix(pickle.end);
  return pickle;
}

// (storage, class, key, place, elements[, view of it (key, first element, elements)])
struct StorageId {
  at::ScalarType type = at::kFloat;
  std::string_view key;
  int64_t elements = 0;
  int64_t first = 0;  // of the view
  int64_t count = 0;
};

StorageId read_id(const PickleValue& root, const std::string& source) {
  const auto bad = [&] { fail(Exit::kInput, "{}: {}, no storage", source, root.describe()); };
  if (root.kind != Kind::kPersistent || root.arguments->kind != Kind::kTuple) bad();
  const std::vector<const PickleValue*>& id = root.arguments->items;
  if (id.size() < 5 || id.size() > 6 || id[0]->text != "storage" || id[1]->kind != Kind::kGlobal ||
      id[2]->kind != Kind::kString || id[4]->kind != Kind::kInt || id[4]->integer < 0) {
    bad();
  }
  StorageId result{at::ScalarType::Undefined, id[2]->text, id[4]->integer, 0, id[4]->integer};
  for (const auto& [name, type] : kStorageTypes) {
    if (id[1]->text == name) result.type = type;
  }
  if (result.type == at::ScalarType::Undefined)
    fail(Exit::kInput, "{}: {} is no storage class", source, id[1]->describe());
  if (id.size() < 6 || id[5]->kind == Kind::kNone) return result;
  const std::vector<const PickleValue*>& view = id[5]->items;
  if (view.size() != 3 || view[1]->kind != Kind::kInt || view[2]->kind != Kind::kInt) bad();
  result.first = view[1]->integer;
  result.count = view[2]->integer;
  if (result.first < 0 || result.count < 0 || result.first > result.elements ||
      result.count > result.elements - result.first) {
    bad();
  }
  return result;
}

void check_system(const PickleValue& system, const std::string& source) {
  const PickleValue* little = system.find("little_endian");
  if (little == nullptr || little->kind != Kind::kBool)
    fail(Exit::kInput, "{}: the storage does not say how its bytes are ordered", source);
  if (little->integer == 0)
    fail(Exit::kInput, "{}: written on a big-endian machine, which is not supported", source);
}

// What every stream begins with: magic number, protocol, and how bytes are ordered. The rest of the
// stream remains.
void check_head(std::string_view& stream, const PickleRules& rules) {
  const std::string& source = rules.source;
  const Pickle magic = next_pickle(stream, rules);
  if (magic.root->kind != Kind::kBigInt || magic.root->text != kMagic)
    fail(Exit::kInput, "{}: nothing that torch.save wrote before zip files", source);
  const Pickle protocol = next_pickle(stream, rules);
  if (protocol.root->kind != Kind::kInt || protocol.root->integer != kProtocol)
    fail(Exit::kInput, "{}: of an unknown protocol of torch.save, {} is known", source, kProtocol);
  check_system(*next_pickle(stream, rules).root, source);
}

std::vector<int64_t> sizes_of(const PickleValue& value) {
  std::vector<int64_t> sizes;
  for (const PickleValue* item : value.items) {
    if (item->kind != Kind::kInt || item->integer < 0) return {-1};
    sizes.push_back(item->integer);
  }
  return sizes;
}

// Elements of the tensor, or -1 if it does not lie within `length` elements.
int64_t elements_within(const std::vector<int64_t>& sizes,
                        const std::vector<int64_t>& strides,
                        int64_t first,
                        int64_t length) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(count, size, &count)) return -1;
  }
  if (count == 0) return first <= length ? 0 : -1;
  int64_t last = first;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return -1;
    }
  }
  return last < length ? count : -1;
}

// Elements as int64, then their bytes, lowest first.
at::Tensor read_data(std::string_view stream, const StorageId& id, const std::string& source) {
  int64_t elements = 0;
  if (stream.size() < sizeof elements)
    fail(Exit::kInput, "{}: the storage's data is missing", source);
  std::memcpy(&elements, stream.data(), sizeof elements);
  stream.remove_prefix(sizeof elements);
  const auto width = static_cast<int64_t>(c10::elementSize(id.type));
  const auto room = static_cast<int64_t>(stream.size());
  if (elements != id.elements || elements > room / width) {
    fail(Exit::kInput,
         "{}: {} elements of {} bytes are announced, {} in the data, which has {} bytes",
         source,
         id.elements,
         width,
         elements,
         room);
  }
  const bool truth = id.type == at::kBool;  // any byte, but a bool is 0 or 1
  const at::Tensor flat = at::empty({id.count}, truth ? at::kByte : id.type);
  if (id.count > 0) std::memcpy(flat.data_ptr(), stream.data() + id.first * width, flat.nbytes());
  return truth ? flat.ne(0) : flat;
}

// The records behind the pickles of a stream: for each key in the order of the list, a count of
// elements and their bytes. The widths of the elements are those that the first pickle tells.
class LegacyRecords {
 public:
  LegacyRecords(std::string source, const Pickle& object) : source_(std::move(source)) {
    for (const PickleValue& value : object.values) {
      if (value.kind != Kind::kPersistent) continue;
      const StorageId id = read_id(value, source_);
      const auto width = static_cast<int64_t>(c10::elementSize(id.type));
      if (!widths_.emplace(std::string(id.key), width).second &&
          widths_[std::string(id.key)] != width)
        fail(Exit::kInput, "{}: storage {} is of two types", source_, printable(id.key));
    }
  }

  void read(const PickleValue& keys, std::string_view data) {
    if (keys.kind != Kind::kList)
      fail(Exit::kInput, "{}: {} in place of the list of storages", source_, keys.describe());
    for (const PickleValue* key : keys.items) {
      const auto width = widths_.find(std::string(key->text));
      if (key->kind != Kind::kString || width == widths_.end())
        fail(Exit::kInput, "{}: storage {} belongs to no tensor", source_, printable(key->text));
      const std::string_view bytes = take(data, width->first, width->second);
      if (!records_.emplace(width->first, bytes).second)
        fail(Exit::kInput, "{}: storage {} is there twice", source_, width->first);
    }
    if (!data.empty())
      fail(Exit::kInput, "{}: {} bytes after the last storage", source_, data.size());
  }

  // Returns the bytes of a storage: uint8 [n], in memory of their own.
  at::Tensor of(const std::string& key) const {
    const auto at = records_.find(key);
    if (at == records_.end())
      fail(Exit::kInput, "{}: storage {} is missing", source_, printable(key));
    const at::Tensor bytes = at::empty({static_cast<int64_t>(at->second.size())}, at::kByte);
    if (bytes.numel() > 0) std::memcpy(bytes.data_ptr(), at->second.data(), bytes.nbytes());
    return bytes;
  }

 private:
  std::string_view take(std::string_view& data, const std::string& key, int64_t width) const {
    int64_t elements = -1;
    if (data.size() >= sizeof elements) std::memcpy(&elements, data.data(), sizeof elements);
    const auto room = static_cast<int64_t>(data.size()) - static_cast<int64_t>(sizeof elements);
    if (elements < 0 || elements > room / width) {
      fail(Exit::kInput,
           "{}: storage {}: {} bytes are left for its {} elements of {} bytes: truncated?",
           source_,
           key,
           std::max<int64_t>(room, 0),
           elements,
           width);
    }
    data.remove_prefix(sizeof elements);
    const std::string_view bytes = data.substr(0, static_cast<size_t>(elements * width));
    data.remove_prefix(bytes.size());
    return bytes;
  }

  std::string source_;
  std::map<std::string, int64_t> widths_;
  std::map<std::string, std::string_view> records_;
};

}  // namespace

std::set<std::string, std::less<>> torch_globals() {
  std::set<std::string, std::less<>> names = {"torch._utils._rebuild_parameter",
                                              "torch._utils._rebuild_tensor",
                                              "torch._utils._rebuild_tensor_v2",
                                              "torch.storage._load_from_bytes",
                                              "torch.Size",
                                              "torch.device",
                                              "numpy.dtype",
                                              "numpy.ndarray"};
  for (const auto& [name, type] : kStorageTypes) names.insert(name);
  for (const char* type : {"float16",
                           "float32",
                           "float64",
                           "bfloat16",
                           "int8",
                           "int16",
                           "int32",
                           "int64",
                           "uint8",
                           "bool"}) {
    names.insert(std::string("torch.") + type);
  }
  for (const char* core : {"numpy.core", "numpy._core"}) {  // before and since numpy 2
    for (const char* name : {"scalar", "_reconstruct"})
      names.insert(fmt::format("{}.multiarray.{}", core, name));
    names.insert(fmt::format("{}.numeric._frombuffer", core));
  }
  return names;
}

bool is_torch_tensor(const PickleValue& value) {
  return value.kind == Kind::kObject && (value.text == "torch._utils._rebuild_parameter" ||
                                         value.text == "torch._utils._rebuild_tensor" ||
                                         value.text == "torch._utils._rebuild_tensor_v2");
}

at::Tensor TorchTensors::read(const PickleValue& value, const std::string& name) {
  const PickleValue* tensor = &value;
  if (value.text == "torch._utils._rebuild_parameter" && value.kind == Kind::kObject) {
    if (value.arguments->items.empty())
      fail(Exit::kInput, "{}: {}: a parameter without its tensor", source_, name);
    tensor = value.arguments->items[0];
  }
  if (!is_torch_tensor(*tensor) || tensor->text == "torch._utils._rebuild_parameter")
    fail(Exit::kInput, "{}: {} is {}, no tensor", source_, name, tensor->describe());
  return view(*tensor, name);
}

// Arguments: storage, first element, sizes, strides, and what does not matter here.
at::Tensor TorchTensors::view(const PickleValue& rebuilt, const std::string& name) {
  const std::vector<const PickleValue*>& items = rebuilt.arguments->items;
  if (items.size() < 4 || items[1]->kind != Kind::kInt || items[2]->kind != Kind::kTuple ||
      items[3]->kind != Kind::kTuple) {
    fail(Exit::kInput, "{}: {}: a tensor without storage, sizes and strides", source_, name);
  }
  const at::Tensor flat = storage(*items[0], name);
  const int64_t first = items[1]->integer;
  const std::vector<int64_t> sizes = sizes_of(*items[2]);
  const std::vector<int64_t> strides = sizes_of(*items[3]);
  const bool sound = first >= 0 && sizes.size() == strides.size() && sizes.size() <= 8 &&
                     (sizes.empty() || (sizes[0] >= 0 && strides[0] >= 0));
  const int64_t count = sound ? elements_within(sizes, strides, first, flat.numel()) : -1;
  if (count < 0) {
    fail(Exit::kInput,
         "{}: {}: sizes [{}] with strides [{}] from element {} leave its storage of {} elements",
         source_,
         name,
         fmt::join(sizes, ", "),
         fmt::join(strides, ", "),
         first,
         flat.numel());
  }
  const at::Tensor seen = at::as_strided(flat, sizes, strides, first);
  // A view of a record as a whole takes no memory of its own.
  if (records_ && seen.is_contiguous()) return seen;
  const auto width = static_cast<int64_t>(flat.element_size());
  if (count > left_ / width)
    fail(Exit::kInput, "{}: {}: the tensors are larger than the file", source_, name);
  left_ -= count * width;
  return seen.contiguous();
}

// A storage that lies in a record, which must have the length that the pickle tells.
at::Tensor TorchTensors::record(const PickleValue& value, const std::string& name) {
  const StorageId id = read_id(value, fmt::format("{}: {}", source_, name));
  const std::string key(id.key);
  at::Tensor& bytes = in_records_[key];
  if (!bytes.defined()) bytes = records_(key);
  const auto width = static_cast<int64_t>(c10::elementSize(id.type));
  if (bytes.numel() % width != 0 || bytes.numel() / width != id.elements) {
    fail(Exit::kInput,
         "{}: {}: {} elements of {} bytes are announced, its record has {} bytes",
         source_,
         name,
         id.elements,
         width,
         bytes.numel());
  }
  if (id.type == at::kBool) return bytes.ne(0);  // any byte, but a bool is 0 or 1
  return id.elements == 0 ? at::empty({0}, id.type) : bytes.view(id.type);
}

at::Tensor TorchTensors::storage(const PickleValue& value, const std::string& name) {
  if (records_ && value.kind == Kind::kPersistent) return record(value, name);
  if (value.kind != Kind::kObject || value.text != "torch.storage._load_from_bytes" ||
      value.arguments->items.size() != 1 || value.arguments->items[0]->kind != Kind::kBytes) {
    fail(Exit::kInput, "{}: {}: its storage is {}, no bytes", source_, name, value.describe());
  }
  const std::string_view stream = value.arguments->items[0]->text;
  const auto known = storages_.find(stream.data());
  if (known != storages_.end()) return known->second;
  const std::string where = fmt::format("{}: {} (bytes at {})", source_, name, value.position);
  return storages_.emplace(stream.data(), read_legacy_storage(stream, where)).first->second;
}

at::Tensor read_legacy_storage(std::string_view stream, const std::string& source) {
  PickleRules rules;
  rules.source = source;
  rules.max_operations = 10'000;
  for (const auto& [name, type] : kStorageTypes) rules.globals.insert(name);
  rules.hint = "; storages alone are";
  check_head(stream, rules);
  rules.persistent_ids = true;
  const Pickle object = next_pickle(stream, rules);
  const StorageId id = read_id(*object.root, source);
  rules.persistent_ids = false;
  const Pickle keys = next_pickle(stream, rules);
  if (keys.root->kind != Kind::kList || keys.root->items.size() != 1 ||
      keys.root->items[0]->kind != Kind::kString || keys.root->items[0]->text != id.key) {
    fail(Exit::kInput, "{}: the stream holds other storages than it says", source);
  }
  return read_data(stream, id, source);
}

std::map<std::string, at::Tensor> read_legacy_dict(std::string_view content,
                                                   const std::string& source) {
  const auto size = static_cast<int64_t>(content.size());
  PickleRules rules;
  rules.source = source;
  rules.globals = torch_globals();
  rules.hint = "; tensors and plain values alone are";
  check_head(content, rules);
  rules.persistent_ids = true;
  const Pickle object = next_pickle(content, rules);
  rules.persistent_ids = false;
  const Pickle keys = next_pickle(content, rules);
  LegacyRecords records(source, object);
  records.read(*keys.root, content);
  if (object.root->kind != Kind::kDict)
    fail(Exit::kInput, "{}: holds {}, no dict of tensors", source, object.root->describe());
  TorchTensors reader(source, size, [&](const std::string& key) { return records.of(key); });
  std::map<std::string, at::Tensor> tensors;
  const std::vector<const PickleValue*>& items = object.root->items;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i]->kind != Kind::kString)
      fail(Exit::kInput, "{}: a tensor is named by {}, no text", source, items[i]->describe());
    const std::string name(items[i]->text);
    tensors[name] = reader.read(*items[i + 1], printable(name));
  }
  return tensors;
}

}  // namespace gantrain
