#include "library.h"

#include "elf_file.h"
#include "required_members.h"

#include "tenon/host/thread_tag.h"

#include <boost/dll/shared_library.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace tenon::host {
namespace {

constexpr char kEntryName[] = "tenon_plugin_entry";

/// Identity of a file, to notice that it was replaced under a name that is already mapped.
struct FileId {
  ::dev_t device = 0;
  ::ino_t inode = 0;
  ::off_t bytes = 0;
  ::timespec changed{};

  static FileId of(const std::filesystem::path& file) {
    struct ::stat st {};
    if (::stat(file.c_str(), &st) != 0) {
      return {};
    }
    return {st.st_dev, st.st_ino, st.st_size, st.st_mtim};
  }
  bool operator==(const FileId& o) const {
    return device == o.device && inode == o.inode && bytes == o.bytes &&
           changed.tv_sec == o.changed.tv_sec && changed.tv_nsec == o.changed.tv_nsec;
  }
};

/// Runs a function of the plug-in that must not throw and yet may: the entry of a plug-in compiled as C++14
/// or through a cast. The pointer type of the header says noexcept, so it is called through a plain one.
template <class R, class... A>
Result<R> call_untrusted(R (*function)(A...), std::type_identity_t<A>... args) {
  try {
    return function(args...);
  } catch (const std::exception& e) {
    return Error{Errc::kInternal, fmt::format("threw an exception: {}", e.what())};
  } catch (...) {
    return Error{Errc::kInternal, "threw an exception of unknown type"};
  }
}

std::string or_empty(const char* s) {
  return s == nullptr ? std::string{} : std::string(s);
}

bool well_formed_id(std::string_view id) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !id.empty() && id.size() <= 64 && plain(id.front()) &&
         std::all_of(
             id.begin(), id.end(), [&](char c) { return plain(c) || c == '.' || c == '-'; });
}

bool well_formed_interface(std::string_view iid) {
  const auto slash = iid.find('/');
  return slash != std::string_view::npos && slash > 0 && slash + 1 < iid.size() &&
         std::all_of(iid.begin() + static_cast<std::ptrdiff_t>(slash) + 1, iid.end(), [](char c) {
           return c >= '0' && c <= '9';
         });
}

void read_keys(const tenon_descriptor& d, PluginInfo& info) {
  if (d.keys == nullptr || d.key_count == 0) {
    return;
  }
  // The stride of the array is the size that the plug-in was compiled with: its first element says it.
  const std::size_t stride = d.keys->size;
  for (std::uint32_t i = 0; i < d.key_count; ++i) {
    tenon_config_key k;
    tenon_adopt(&k, sizeof k, TENON_AT(tenon_config_key, d.keys, stride, i));
    info.keys.push_back({or_empty(k.name),
                         std::string(config_type_name(k.type)),
                         or_empty(k.default_text),
                         or_empty(k.doc),
                         k.flags});
  }
}

Result<PluginInfo> read_descriptor(const tenon_factory& factory, std::uint32_t index) {
  const tenon_descriptor* theirs = factory.descriptor(index);
  if (theirs == nullptr) {
    return Error{Errc::kInvalid,
                 fmt::format("descriptor {} is null; repair the factory of the plug-in", index)};
  }
  tenon_descriptor d;
  tenon_adopt(&d, sizeof d, theirs);
  PluginInfo info;
  info.id = or_empty(d.id);
  info.version = or_empty(d.version);
  if (!well_formed_id(info.id)) {
    return Error{Errc::kInvalid,
                 fmt::format("descriptor {} has the illegal id \"{}\"; use reverse DNS of a-z, "
                             "0-9, '.' and '-', at most 64 "
                             "bytes",
                             index,
                             info.id)};
  }
  if (info.version.empty()) {
    return Error{
        Errc::kInvalid,
        fmt::format("descriptor \"{}\" has no version; set one such as \"1.0.0\"", info.id)};
  }
  info.name = or_empty(d.name);
  info.vendor = or_empty(d.vendor);
  info.url = or_empty(d.url);
  info.doc = or_empty(d.doc);
  info.flags = d.flags;
  bool known = false;
  for (const char* const* i = d.interfaces; i != nullptr && *i != nullptr; ++i) {
    if (!well_formed_interface(*i)) {
      return Error{Errc::kInvalid,
                   fmt::format("descriptor \"{}\" names the malformed interface \"{}\"; it must be "
                               "<name>/<revision>",
                               info.id,
                               *i)};
    }
    known = known || knows_interface(*i);
    info.interfaces.emplace_back(*i);
  }
  if (!known) {
    return Error{
        Errc::kIncompatible,
        fmt::format(
            "\"{}\" offers no interface that this host knows ({}); use a host of its version",
            info.id,
            info.interfaces.empty() ? "none"
                                    : fmt::format("{}", fmt::join(info.interfaces, ", ")))};
  }
  read_keys(d, info);
  return info;
}

/// What the entry object says, checked in the order of plug-in ABI §3.1.
Result<> check_entry(const tenon_entry& entry) {
  if (entry.magic != TENON_ENTRY_MAGIC) {
    return Error{
        Errc::kInvalid,
        "tenon_plugin_entry has the wrong magic; rebuild the plug-in with the headers of tenon"};
  }
  if (entry.abi_major != TENON_ABI_MAJOR) {
    return Error{Errc::kIncompatible,
                 fmt::format("built for ABI {}.{}, this host speaks {}.{}; rebuild the plug-in "
                             "with headers of major {}",
                             entry.abi_major,
                             entry.abi_minor,
                             TENON_ABI_MAJOR,
                             TENON_ABI_MINOR,
                             TENON_ABI_MAJOR)};
  }
  if (entry.size < offsetof(tenon_entry, build_info)) {
    return Error{Errc::kInvalid,
                 fmt::format("entry truncated: {} bytes, at least {} are needed; set its size to "
                             "sizeof(tenon_entry)",
                             entry.size,
                             offsetof(tenon_entry, build_info))};
  }
  if (entry.get_factory == nullptr) {
    return Error{Errc::kInvalid, "get_factory is null; repair the entry of the plug-in"};
  }
  return ok();
}

/// State that stays for the life of the process; users counts init against deinit.
struct Loaded {
  std::filesystem::path file{};
  FileId id{};
  boost::dll::shared_library mapping{};
  tenon_entry entry{};
  tenon_factory factory{};
  std::vector<PluginInfo> plugins{};
  int users = 0;
};

Result<> read_plugins(Loaded& l) {
  const void* theirs = l.entry.get_factory(TENON_FACTORY_IID);
  if (theirs == nullptr) {
    return Error{
        Errc::kIncompatible,
        "offers no factory this host knows (tenon.factory/1); rebuild the plug-in for this major"};
  }
  tenon_adopt(&l.factory, sizeof l.factory, theirs);
  if (!TENON_HAS(&l.factory, tenon_factory, create) || l.factory.count == nullptr ||
      l.factory.descriptor == nullptr) {
    return Error{
        Errc::kInvalid,
        "its factory lacks count, descriptor or create; repair the factory of the plug-in"};
  }
  l.plugins.clear();
  const std::uint32_t n = l.factory.count();
  for (std::uint32_t i = 0; i < n; ++i) {
    TENON_TRY(auto info, read_descriptor(l.factory, i));
    info.file = l.file;
    info.abi_major = l.entry.abi_major;
    info.abi_minor = l.entry.abi_minor;
    info.build_info = or_empty(l.entry.build_info);
    for (const PluginInfo& other : l.plugins) {
      if (other.id == info.id) {
        return Error{Errc::kConflict,
                     fmt::format("has two plug-ins with the id \"{}\"; rename one", info.id)};
      }
    }
    l.plugins.push_back(std::move(info));
  }
  if (l.plugins.empty()) {
    return Error{Errc::kInvalid, "contains no plug-in; add a descriptor to its factory"};
  }
  return ok();
}

Result<> init_entry(Loaded& l) {
  if (l.entry.init != nullptr) {
    ErrorBuffer err;
    const std::string path = l.file.string();
    tenon_status (*init)(tenon_str, tenon_error*) = l.entry.init;
    auto status = call_untrusted(init, abi_str(path), err.raw());
    if (!status) {
      return Error{Errc::kInternal,
                   fmt::format("init {}; repair the plug-in, nothing may throw across the boundary",
                               status.error().detail)};
    }
    if (status.value() < 0) {
      return err.make_error(status.value(), "init failed");
    }
  }
  auto read = read_plugins(l);
  if (!read && l.entry.deinit != nullptr) {
    l.entry.deinit();
  }
  return read;
}

struct Table {
  std::mutex mutex{};
  std::map<std::filesystem::path, std::unique_ptr<Loaded>> files{};
  std::map<const tenon_entry*, std::unique_ptr<Loaded>> linked{};
};

Table& table() {
  static auto* t = new Table;  // never destroyed: libraries stay mapped until the process ends
  return *t;
}

class Use final : public Library {
 public:
  explicit Use(Loaded* loaded)
      : loaded_(loaded) {}
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() override {
    const std::scoped_lock lock(table().mutex);
    if (--loaded_->users == 0 && loaded_->entry.deinit != nullptr) {
      loaded_->entry.deinit();
    }
  }
  const tenon_factory& factory() const override { return loaded_->factory; }
  const std::vector<PluginInfo>& plugins() const override { return loaded_->plugins; }
  const std::filesystem::path& file() const override { return loaded_->file; }

 private:
  Loaded* loaded_;
};

/// With the table locked.
Result<std::shared_ptr<const Library>> use(Loaded& l) {
  if (l.users == 0) {
    TENON_TRY(init_entry(l));
  }
  ++l.users;
  return std::shared_ptr<const Library>(std::make_shared<Use>(&l));
}

/// The loader's own text out of what Boost.DLL throws: "… failed (dlerror system message: TEXT): code text".
std::string loader_text(std::string_view what, const std::filesystem::path& file) {
  constexpr std::string_view kBefore = "dlerror system message: ";
  if (const auto at = what.find(kBefore); at != std::string_view::npos) {
    what.remove_prefix(at + kBefore.size());
    if (const auto end = what.rfind(')'); end != std::string_view::npos) {
      what = what.substr(0, end);
    }
  }
  const std::string prefix = file.string() + ": ";
  if (what.substr(0, prefix.size()) == prefix) {
    what.remove_prefix(prefix.size());
  }
  return std::string(what);
}

Result<> map_file(Loaded& l) {
  try {
    // Trap: the default mode is lazy, and then a missing function ends the process at its first call (§21).
    l.mapping.load(l.file, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  } catch (const std::exception& e) {
    return Error{Errc::kIncompatible,
                 fmt::format("the loader says: {}; install or link what is missing",
                             loader_text(e.what(), l.file))};
  } catch (...) {
    return Error{Errc::kInternal,
                 "threw an exception while it was loaded; repair its static constructors"};
  }
  return ok();
}

Result<> precheck(const std::filesystem::path& file, bool insecure) {
  TENON_TRY(auto symbols, exported_symbols(file));
  if (!insecure && writable_by_others(file)) {
    return Error{Errc::kDenied,
                 "may be written by others; chmod go-w the file, or set insecure = true"};
  }
  if (!insecure && writable_by_others(file.parent_path())) {
    return Error{
        Errc::kDenied,
        fmt::format(
            "lies in {}, which others may write; chmod go-w the folder, or set insecure = true",
            file.parent_path().string())};
  }
  if (std::find(symbols.begin(), symbols.end(), kEntryName) == symbols.end()) {
    std::string exports = symbols.empty() ? std::string("nothing") : std::string{};
    for (std::size_t i = 0; i < std::min<std::size_t>(symbols.size(), 5); ++i) {
      exports += (i == 0 ? "" : ", ") + symbols[i];
    }
    return Error{Errc::kInvalid,
                 fmt::format("no symbol tenon_plugin_entry (exports: {}{}); define it as the "
                             "headers declare it, or use "
                             "TENON_PLUGINS()",
                             exports,
                             symbols.size() > 5 ? ", …" : "")};
  }
  return ok();
}

Result<> load_new(Loaded& l, bool insecure) {
  TENON_TRY(precheck(l.file, insecure));
  l.id = FileId::of(l.file);
  TENON_TRY(map_file(l));
  const auto& theirs = l.mapping.get<const tenon_entry>(kEntryName);
  TENON_TRY(check_entry(theirs));
  tenon_entry copy{};
  std::memcpy(&copy, &theirs, std::min<std::size_t>(theirs.size, sizeof copy));
  l.entry = copy;
  return ok();
}

Error with_file(const Error& e, const std::filesystem::path& file) {
  return Error{e.code, fmt::format("{}: {}", file.string(), e.detail), e.os_errno};
}

}  // namespace

const PluginInfo* Library::find(std::string_view id) const {
  for (const PluginInfo& p : plugins()) {
    if (p.id == id) {
      return &p;
    }
  }
  return nullptr;
}

Result<std::shared_ptr<const Library>> Library::open(const std::filesystem::path& file,
                                                     bool insecure) {
  const ControlScope control;
  std::error_code ec;
  std::filesystem::path real = std::filesystem::canonical(file, ec);
  if (ec) {
    real = std::filesystem::absolute(file, ec);
  }
  const std::scoped_lock lock(table().mutex);
  auto& slot = table().files[real];
  if (slot != nullptr && !(FileId::of(real) == slot->id)) {
    // Trap: dlopen of a path that is mapped returns the old library, whatever lies there now (§21).
    return Error{Errc::kConflict,
                 fmt::format("{}: the file was replaced after it was loaded and the old code stays "
                             "mapped; install the new "
                             "one under another name (<id>-<version>.tenon.so) or restart",
                             real.string())};
  }
  if (slot == nullptr) {
    auto fresh = std::make_unique<Loaded>();
    fresh->file = real;
    if (auto loaded = load_new(*fresh, insecure); !loaded) {
      static auto* refused =
          new std::vector<std::unique_ptr<Loaded>>;  // a refused file may be mapped: keep it
      refused->push_back(std::move(fresh));
      table().files.erase(real);
      return with_file(loaded.error(), real);
    }
    slot = std::move(fresh);
  }
  auto used = use(*slot);
  return used ? used : with_file(used.error(), real);
}

Result<std::shared_ptr<const Library>> Library::open_static(const tenon_entry* entry) {
  const ControlScope control;
  const std::scoped_lock lock(table().mutex);
  auto& slot = table().linked[entry];
  if (slot == nullptr) {
    if (auto checked = check_entry(*entry); !checked) {
      table().linked.erase(entry);
      return Error{checked.error().code, "linked-in plug-in: " + checked.error().detail};
    }
    slot = std::make_unique<Loaded>();
    std::memcpy(&slot->entry, entry, std::min<std::size_t>(entry->size, sizeof slot->entry));
  }
  auto used = use(*slot);
  return used ? used : Error{used.error().code, "linked-in plug-in: " + used.error().detail};
}

bool writable_by_others(const std::filesystem::path& path) {
  struct ::stat st {};
  if (::stat(path.empty() ? "." : path.c_str(), &st) != 0) {
    return false;  // opening it will tell
  }
  const bool by_group = (st.st_mode & S_IWGRP) != 0 && st.st_gid != 0 && st.st_gid != ::getegid();
  return by_group || (st.st_mode & S_IWOTH) != 0;
}

int compare_versions(std::string_view a, std::string_view b) {
  while (!a.empty() || !b.empty()) {
    const auto next = [](std::string_view& s) {
      const auto dot = s.find('.');
      const std::string_view part = s.substr(0, dot);
      s = dot == std::string_view::npos ? std::string_view{} : s.substr(dot + 1);
      std::uint64_t number = 0;
      const auto [rest, ec] = std::from_chars(part.data(), part.data() + part.size(), number);
      static_cast<void>(ec);
      const auto used = static_cast<std::size_t>(rest - part.data());
      return std::pair(number, part.substr(used));
    };
    const auto [na, ta] = next(a);
    const auto [nb, tb] = next(b);
    if (na != nb) {
      return na < nb ? -1 : 1;
    }
    if (ta != tb) {  // 1.0-rc1 comes before 1.0
      return ta.empty() ? 1 : tb.empty() ? -1 : ta < tb ? -1 : 1;
    }
  }
  return 0;
}

std::string_view config_type_name(std::uint32_t type) {
  static constexpr std::string_view kNames[] = {
      "unknown", "bool", "int", "float", "string", "duration", "size", "array", "table"};
  return type < std::size(kNames) ? kNames[type] : kNames[0];
}

}  // namespace tenon::host
