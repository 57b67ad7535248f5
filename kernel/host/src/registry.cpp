#include "instance.h"
#include "library.h"

#include "tenon/base/cores.h"
#include "tenon/base/log.h"
#include "tenon/base/similar.h"
#include "tenon/host/thread_tag.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include <dlfcn.h>

namespace tenon::host {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".tenon.so";
constexpr std::chrono::milliseconds kProbeTimeout{5000};

std::string_view stem_of(std::string_view name) {
  return name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size())
                                 : std::string_view{};
}

/// `<id>.tenon.so` or `<id>-<version>.tenon.so`.
bool named_for(const fs::path& file, std::string_view id) {
  const std::string name = file.filename().string();
  std::string_view stem = stem_of(name);
  if (!stem.starts_with(id)) {
    return false;
  }
  stem.remove_prefix(id.size());
  return stem.empty() || (stem.size() > 1 && stem[0] == '-' && stem[1] >= '0' && stem[1] <= '9');
}

std::vector<fs::path> plugin_files(const fs::path& dir) {
  std::vector<fs::path> files;
  std::error_code ec;
  for (auto it = fs::directory_iterator(dir, ec); !ec && it != fs::directory_iterator();
       it.increment(ec)) {
    if (it->path().filename().string().ends_with(kSuffix)) {
      files.push_back(it->path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<fs::path> split_paths(std::string_view text) {
  std::vector<fs::path> out;
  while (!text.empty()) {
    const auto colon = text.find(':');
    if (const std::string_view part = text.substr(0, colon); !part.empty()) {
      out.emplace_back(part);
    }
    text = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  }
  return out;
}

using LibraryPtr = std::shared_ptr<const Library>;

struct Found {
  LibraryPtr library{};
  const PluginInfo* info = nullptr;
};

class RegistryImpl final : public PluginRegistry {
 public:
  explicit RegistryImpl(RegistryOptions options)
      : options_(std::move(options)),
        core_(std::make_shared<ExecCore>(std::clamp<std::size_t>(usable_cores(), 2, 4))) {}

  Result<> add_static(const tenon_entry* entry) override;
  Result<std::vector<PluginInfo>> load(const fs::path& file) override;
  std::vector<PluginInfo> list() override;
  Result<PluginInfo> describe(std::string_view id_or_path) override;
  Result<std::unique_ptr<Instance>> create(std::string_view id_or_path,
                                           const InstanceOptions& options) override;

 private:
  std::vector<fs::path> directories() const;
  Result<Found> resolve(std::string_view id_or_path);
  Result<Found> resolve_path(const fs::path& file);
  Found find_loaded(const std::vector<LibraryPtr>& in, std::string_view id) const;
  /// Best version among the files of one folder; refusals are kept for the error text.
  Found best_of(const std::vector<fs::path>& files,
                std::string_view id,
                std::vector<Error>& refusals);
  Error not_found(std::string_view id,
                  const std::vector<std::string>& others,
                  const std::vector<Error>& refusals) const;
  void keep(const LibraryPtr& library);

  const RegistryOptions options_;
  const std::shared_ptr<ExecCore> core_;
  std::vector<LibraryPtr> linked_;
  std::vector<LibraryPtr> files_;
};

std::vector<fs::path> RegistryImpl::directories() const {
  std::vector<fs::path> all = options_.search_path;
  if (options_.use_environment) {
    // Read at start and on [control] only, where nobody changes the environment.
    if (const char* env = std::getenv("TENON_PLUGIN_PATH")) {  // NOLINT(concurrency-mt-unsafe)
      for (fs::path& p : split_paths(env)) {
        all.push_back(std::move(p));
      }
    }
    for (fs::path& p : default_plugin_dirs()) {
      all.push_back(std::move(p));
    }
  }
  std::vector<fs::path> out;
  std::set<fs::path> seen;
  for (const fs::path& p : all) {
    std::error_code ec;
    const fs::path real = fs::weakly_canonical(p, ec);
    if (seen.insert(ec ? p : real).second) {
      out.push_back(ec ? p : real);
    }
  }
  return out;
}

void RegistryImpl::keep(const LibraryPtr& library) {
  for (const LibraryPtr& l : files_) {
    if (l->file() == library->file()) {
      return;
    }
  }
  files_.push_back(library);
}

Result<> RegistryImpl::add_static(const tenon_entry* entry) {
  const ControlScope control;
  TENON_TRY(auto library, Library::open_static(entry));
  for (const PluginInfo& p : library->plugins()) {
    if (find_loaded(linked_, p.id).info != nullptr) {
      return Error{Errc::kConflict,
                   fmt::format("a plug-in with the id \"{}\" is linked in already", p.id)};
    }
  }
  linked_.push_back(std::move(library));
  return ok();
}

Result<std::vector<PluginInfo>> RegistryImpl::load(const fs::path& file) {
  const ControlScope control;
  TENON_TRY(auto library, Library::open(file, options_.insecure));
  keep(library);
  return library->plugins();
}

Found RegistryImpl::find_loaded(const std::vector<LibraryPtr>& in, std::string_view id) const {
  Found best;
  for (const LibraryPtr& l : in) {
    const PluginInfo* info = l->find(id);
    if (info != nullptr &&
        (best.info == nullptr || compare_versions(info->version, best.info->version) > 0)) {
      best = {l, info};
    }
  }
  return best;
}

Found RegistryImpl::best_of(const std::vector<fs::path>& files,
                            std::string_view id,
                            std::vector<Error>& refusals) {
  Found best;
  for (const fs::path& file : files) {
    auto library = Library::open(file, options_.insecure);
    if (!library) {
      refusals.push_back(library.error());
      continue;
    }
    const PluginInfo* info = library.value()->find(id);
    if (info == nullptr) {
      continue;
    }
    if (best.info == nullptr) {
      best = {library.value(), info};
      continue;
    }
    const bool better = compare_versions(info->version, best.info->version) > 0;
    const PluginInfo& used = better ? *info : *best.info;
    const PluginInfo& other = better ? *best.info : *info;
    log_warn("host",
             "two files contain one plug-in, the higher version is used plugin={} used={} "
             "version={} other={} version={}",
             id,
             used.file.string(),
             used.version,
             other.file.string(),
             other.version);
    if (better) {
      best = {library.value(), info};
    }
  }
  return best;
}

Result<Found> RegistryImpl::resolve_path(const fs::path& file) {
  TENON_TRY(auto library, Library::open(file, options_.insecure));
  keep(library);
  if (library->plugins().size() != 1) {
    std::string ids;
    for (const PluginInfo& p : library->plugins()) {
      ids += (ids.empty() ? "" : ", ") + p.id;
    }
    return Error{
        Errc::kInvalid,
        fmt::format("{} contains several plug-ins ({}); name one by its id", file.string(), ids)};
  }
  return Found{library, &library->plugins().front()};
}

Result<Found> RegistryImpl::resolve(std::string_view id) {
  if (id.find('/') != std::string_view::npos) {
    return resolve_path(fs::path(id));
  }
  if (const Found f = find_loaded(linked_, id); f.info != nullptr) {
    return f;
  }
  if (const Found f = find_loaded(files_, id); f.info != nullptr) {
    return f;
  }
  std::vector<Error> refusals;
  const std::vector<fs::path> dirs = directories();
  for (const fs::path& dir : dirs) {
    std::vector<fs::path> named = plugin_files(dir);
    std::erase_if(named, [&](const fs::path& f) { return !named_for(f, id); });
    if (const Found f = best_of(named, id, refusals); f.info != nullptr) {
      for (const Error& e : refusals) {
        log_warn("host", "plug-in file is passed over reason={:?}", e.detail);
      }
      keep(f.library);
      return f;
    }
  }
  if (!refusals.empty()) {
    return refusals.front();
  }
  // No file is named for it: look into the others, in child processes because they may be anything.
  std::vector<std::string> others;
  for (const LibraryPtr& l : linked_) {
    for (const PluginInfo& p : l->plugins()) {
      others.push_back(p.id);
    }
  }
  for (const fs::path& dir : dirs) {
    for (const fs::path& file : plugin_files(dir)) {
      const auto inside = probe_in_child(file, kProbeTimeout, options_.insecure);
      if (!inside) {
        continue;
      }
      for (const PluginInfo& p : inside.value()) {
        if (p.id == id) {
          const Found f = best_of({file}, id, refusals);
          if (f.info != nullptr) {
            keep(f.library);
            return f;
          }
        }
        others.push_back(p.id);
      }
    }
  }
  return not_found(id, others, refusals);
}

Error RegistryImpl::not_found(std::string_view id,
                              const std::vector<std::string>& others,
                              const std::vector<Error>& refusals) const {
  if (!refusals.empty()) {
    return refusals.front();
  }
  std::string where;
  for (const fs::path& d : directories()) {
    std::error_code ec;
    where += (where.empty() ? "" : ", ") + d.string() +
             (fs::is_directory(d, ec) ? "" : " (does not exist)");
  }
  return Error{Errc::kNotFound,
               fmt::format("no plug-in \"{}\"{}; searched {}",
                           id,
                           did_you_mean(id, std::span<const std::string>(others)),
                           where.empty() ? "no folder" : where)};
}

std::vector<PluginInfo> RegistryImpl::list() {
  std::vector<PluginInfo> out;
  std::map<std::string, std::string> first;  // id → where the one that is used lies
  const auto add = [&](PluginInfo info, const std::string& where) {
    const auto [it, fresh] = first.emplace(info.id, where);
    if (!fresh && info.refused.empty()) {
      info.refused = fmt::format("not used, {} comes first", it->second);
    }
    out.push_back(std::move(info));
  };
  {
    const ControlScope control;
    for (const LibraryPtr& l : linked_) {
      for (const PluginInfo& p : l->plugins()) {
        add(p, "the linked-in one");
      }
    }
  }
  for (const fs::path& dir : directories()) {
    std::vector<PluginInfo> here;
    for (const fs::path& file : plugin_files(dir)) {
      auto plugins = probe_in_child(file, kProbeTimeout, options_.insecure);
      if (plugins) {
        here.insert(here.end(), plugins.value().begin(), plugins.value().end());
        continue;
      }
      PluginInfo refused;
      refused.file = file;
      refused.refused = plugins.error().detail;
      out.push_back(std::move(refused));
    }
    std::stable_sort(here.begin(), here.end(), [](const PluginInfo& a, const PluginInfo& b) {
      return a.id != b.id ? a.id < b.id : compare_versions(a.version, b.version) > 0;
    });
    for (PluginInfo& p : here) {
      const std::string where = p.file.string();
      add(std::move(p), where);
    }
  }
  return out;
}

Result<PluginInfo> RegistryImpl::describe(std::string_view id_or_path) {
  const ControlScope control;
  TENON_TRY(auto found, resolve(id_or_path));
  return *found.info;
}

Result<std::unique_ptr<Instance>> RegistryImpl::create(std::string_view id_or_path,
                                                       const InstanceOptions& options) {
  const ControlScope control;
  TENON_TRY(auto found, resolve(id_or_path));
  return create_instance(found.library, *found.info, options, options_, core_);
}

}  // namespace

std::vector<fs::path> default_plugin_dirs() {
  std::error_code ec;
  const fs::path exe = fs::read_symlink("/proc/self/exe", ec);
  if (ec) {
    return {};
  }
  const fs::path prefix = exe.parent_path().parent_path();
  std::vector<fs::path> out{prefix / "plugins", prefix / TENON_LIBDIR / "tenon/plugins"};
#ifdef TENON_TRIPLET
  out.push_back(prefix / "lib" / TENON_TRIPLET / "tenon/plugins");
#endif
  // Linked into a shared library (the client SDK): the folder beside it.
  ::Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&default_plugin_dirs), &info) != 0 &&
      info.dli_fname != nullptr) {
    const fs::path self = fs::weakly_canonical(info.dli_fname, ec);
    if (!ec && self != exe) {
      out.push_back(self.parent_path() / "tenon/plugins");
    }
  }
  return out;
}

std::unique_ptr<PluginRegistry> PluginRegistry::create(RegistryOptions options) {
  return std::make_unique<RegistryImpl>(std::move(options));
}

}  // namespace tenon::host
