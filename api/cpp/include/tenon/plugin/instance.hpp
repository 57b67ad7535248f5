// Instance boilerplate: turns a class into the tables of the ABI. Every function is a thunk that
// stops exceptions. Authors use plugin.hpp and do not call this directly.
#pragma once

#include "tenon/abi/entry.h"
#include "tenon/plugin/host.hpp"
#include "tenon/plugin/views.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace tenon::plugin {

/// What a plug-in class says about itself: `static constexpr tenon::plugin::About kAbout{...};`
struct About {
  const char* id = nullptr;
  const char* version = nullptr;
  const char* name = nullptr;
  const char* vendor = nullptr;
  const char* url = nullptr;
  const char* doc = nullptr;
  std::uint32_t flags = 0;  ///< TENON_PLUGIN_...
};

/// One entry of `static constexpr tenon_config_key kKeys[] = {key(...), ...};`
constexpr tenon_config_key key(const char* name,
                               std::uint32_t type,
                               const char* default_text,
                               const char* doc,
                               std::uint32_t flags = 0) noexcept {
  return {sizeof(tenon_config_key), type, name, default_text, doc, flags, 0};
}

/// `using Interfaces = tenon::plugin::Offers<tenon::plugin::Storage>;`
template <class... Interface>
struct Offers {};

namespace detail {

/// Memory of one instance; its address is `self` of every interface. The object exists between init
/// and destroy.
template <class T>
struct Holder {
  explicit Holder(const tenon_host* raw) noexcept
      : host(raw) {}
  tenon_plugin table{};
  Host host;
  std::optional<T> object;
};

inline tenon_error* error_argument() noexcept {
  return nullptr;
}
template <class First, class... Rest>
tenon_error* error_argument(First first, Rest... rest) noexcept {
  if constexpr (std::is_same_v<First, tenon_error*>) {
    return first;
  } else {
    return error_argument(rest...);
  }
}

/// Calls F and stops what it throws: status results become a status with text, void results a log
/// line, other results zero.
template <class R, class T, class F>
R guarded(Holder<T>& holder, tenon_error* err, F&& call) noexcept {
  try {
    return call();
  } catch (...) {
    ErrorText text;
    const tenon_status status = fail_current_exception(err != nullptr ? err : text.raw());
    if (err == nullptr) {
      holder.host.log(
          TENON_LOG_ERROR, "exception stopped at the edge of the plug-in", {{"what", text.text()}});
    }
    if constexpr (std::is_same_v<R, tenon_status>) {
      return status;
    } else if constexpr (!std::is_void_v<R>) {
      return R{};
    }
  }
}

/// The C function for a member function whose parameters are those of the ABI without `self`.
template <class T, class Signature>
struct Bind;
template <class T, class C, class R, class... A>
struct Bind<T, R (C::*)(A...)> {
  template <auto kMethod>
  static R call(void* self, A... a) noexcept {
    auto& holder = *static_cast<Holder<T>*>(self);
    return guarded<R>(holder, error_argument(a...), [&]() -> R {
      return (static_cast<C&>(*holder.object).*kMethod)(a...);
    });
  }
};
template <class T, class C, class R, class... A>
struct Bind<T, R (C::*)(A...) const> : Bind<T, R (C::*)(A...)> {};
template <class T, class C, class R, class... A>
struct Bind<T, R (C::*)(A...) noexcept> : Bind<T, R (C::*)(A...)> {};
template <class T, class C, class R, class... A>
struct Bind<T, R (C::*)(A...) const noexcept> : Bind<T, R (C::*)(A...)> {};

template <class T, auto kMethod>
inline constexpr auto kThunk = &Bind<T, decltype(kMethod)>::template call<kMethod>;

template <class T>
struct InterfacesOf;
template <class... I>
struct InterfacesOf<Offers<I...>> {
  static constexpr std::array<const char*, sizeof...(I) + 1> kIds{I::kIid..., nullptr};
  template <class T>
  static const void* find(std::string_view iid) noexcept {
    const void* found = nullptr;
    ((found == nullptr && iid == I::kIid ? void(found = &kTable<T, I>) : void()), ...);
    return found;
  }
  template <class T, class Interface>
  static constexpr auto kTable = Interface::template table<T>();
};

template <class T>
struct Instance {
  using Self = Holder<T>;

  static tenon_status init(void* self, tenon_error* err) noexcept {
    auto& h = *static_cast<Self*>(self);
    return guarded<tenon_status>(h, err, [&] {
      h.host.fetch();
      h.object.emplace(h.host);
      return tenon_status{TENON_OK};
    });
  }
  static tenon_status activate(void* self, tenon_error* err) noexcept {
    auto& h = *static_cast<Self*>(self);
    return guarded<tenon_status>(h, err, [&] {
      if constexpr (requires(T & t) { t.activate(); }) {
        h.object->activate();
      }
      return tenon_status{TENON_OK};
    });
  }
  static void deactivate(void* self) noexcept {
    auto& h = *static_cast<Self*>(self);
    guarded<void>(h, nullptr, [&] {
      if constexpr (requires(T & t) { t.deactivate(); }) {
        h.object->deactivate();
      }
    });
  }
  static void destroy(void* self) noexcept { delete static_cast<Self*>(self); }
  static const void* get_interface(void* self, const char* iid) noexcept {
    if constexpr (requires(T & t) {
                    t.extra_interface(iid);
                  }) {  // interfaces that the glue does not know
      if (const void* found = static_cast<Self*>(self)->object->extra_interface(iid)) {
        return found;
      }
    }
    return InterfacesOf<typename T::Interfaces>::template find<T>(iid);
  }
  static tenon_status quiesce(void* self, tenon_token token, tenon_error* err) noexcept {
    auto& h = *static_cast<Self*>(self);
    return guarded<tenon_status>(
        h, err, [&]() -> tenon_status { return h.object->quiesce(token); });
  }
  static tenon_status reconfigure(void* self, tenon_error* err) noexcept {
    auto& h = *static_cast<Self*>(self);
    return guarded<tenon_status>(h, err, [&] {
      h.object->reconfigure();
      return tenon_status{TENON_OK};
    });
  }
  static void status(void* self, const tenon_sink* out) noexcept {
    auto& h = *static_cast<Self*>(self);
    guarded<void>(h, nullptr, [&] { h.object->status(*out); });
  }

  static constexpr void fill(tenon_plugin& p) noexcept {
    p.size = sizeof p;
    p.init = init;
    p.activate = activate;
    p.deactivate = deactivate;
    p.destroy = destroy;
    p.get_interface = get_interface;
    if constexpr (requires(T & t, tenon_token k) { t.quiesce(k); }) {
      p.quiesce = quiesce;
    }
    if constexpr (requires(T & t) { t.reconfigure(); }) {
      p.reconfigure = reconfigure;
    }
    if constexpr (requires(T & t, const tenon_sink& s) { t.status(s); }) {
      p.status = status;
    }
  }
};

template <class T>
constexpr tenon_descriptor descriptor_of() noexcept {
  constexpr About a = T::kAbout;
  static_assert(a.id != nullptr && a.version != nullptr, "kAbout needs id and version");
  tenon_descriptor d{sizeof(tenon_descriptor),
                     a.flags,
                     a.id,
                     a.name,
                     a.vendor,
                     a.version,
                     a.url,
                     a.doc,
                     InterfacesOf<typename T::Interfaces>::kIds.data(),
                     nullptr,
                     0,
                     0};
  if constexpr (requires { T::kKeys; }) {
    d.keys = T::kKeys;
    d.key_count = static_cast<std::uint32_t>(std::size(T::kKeys));
  }
  return d;
}

/// The factory and the entry of a file that contains the plug-ins T...
template <class... T>
struct Module {
  static constexpr tenon_descriptor kDescriptors[] = {descriptor_of<T>()...};

  static std::uint32_t count() noexcept { return sizeof...(T); }
  static const tenon_descriptor* descriptor(std::uint32_t i) noexcept {
    return i < sizeof...(T) ? &kDescriptors[i] : nullptr;
  }
  template <class P>
  static tenon_status make(const tenon_host* host,
                           const tenon_plugin** out,
                           tenon_error* err) noexcept {
    auto* h = new (std::nothrow) Holder<P>(host);
    if (h == nullptr) {
      return fail(err, TENON_NOMEM, "out of memory");
    }
    Instance<P>::fill(h->table);
    h->table.self = h;
    *out = &h->table;
    return TENON_OK;
  }
  static tenon_status create(const char* id,
                             const tenon_host* host,
                             const tenon_plugin** out,
                             tenon_error* err) noexcept {
    tenon_status status = TENON_NOT_FOUND;
    const std::string_view wanted = id;
    ((wanted == T::kAbout.id ? void(status = make<T>(host, out, err)) : void()), ...);
    return status == TENON_NOT_FOUND ? fail(err, status, "unknown plug-in id") : status;
  }
  static constexpr tenon_factory kFactory{sizeof(tenon_factory), 0, count, descriptor, create};
  static const void* get_factory(const char* id) noexcept {
    return std::string_view(id) == TENON_FACTORY_IID ? &kFactory : nullptr;
  }
  static constexpr tenon_entry entry() noexcept {
    return {TENON_ENTRY_MAGIC,
            sizeof(tenon_entry),
            TENON_ABI_MAJOR,
            TENON_ABI_MINOR,
            nullptr,
            nullptr,
            get_factory,
            "g++ or clang " __VERSION__};
  }
};

}  // namespace detail
}  // namespace tenon::plugin
