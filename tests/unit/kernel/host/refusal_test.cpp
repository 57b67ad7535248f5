// Every refusal names the file, the reason and the remedy (plug-in ABI §3.1).
#include "host_test.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include <sys/wait.h>
#include <unistd.h>

using tenon::Errc;

namespace {

/// Text of the refusal; it begins with the file, which is cut off.
tenon::Error refusal(const test::fs::path& file, bool insecure = false) {
  auto loaded = test::make_registry({}, insecure)->load(file);
  REQUIRE_FALSE(loaded.has_value());
  tenon::Error e = loaded.error();
  const std::string prefix = test::fs::weakly_canonical(file).string() + ": ";
  REQUIRE_MESSAGE(e.detail.substr(0, prefix.size()) == prefix, e.detail);
  e.detail.erase(0, prefix.size());
  return e;
}

bool begins(const std::string& text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}
bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("host/refusal") {
  TEST_CASE("a file that is not there") {
    const auto e = refusal("/nonexistent/x.tenon.so");
    CHECK(e.code == Errc::kNotFound);
    CHECK(e.detail == "cannot be read: No such file or directory; check the path");
  }

  TEST_CASE("files that are not shared objects") {
    const test::TempDir dir;
    const auto file = dir.path() / "x.tenon.so";
    SUBCASE("empty") {
      std::ofstream(file).flush();
      CHECK(begins(refusal(file).detail, "is not an ELF shared object (the file is empty)"));
    }
    SUBCASE("text") {
      std::ofstream(file) << "#!/bin/sh\necho this is no plug-in\n";
      CHECK(begins(refusal(file).detail,
                   "is not an ELF shared object (it does not begin with the ELF magic)"));
    }
    SUBCASE("a folder") {
      test::fs::create_directory(file);
      CHECK(begins(refusal(file).detail, "is not a regular file"));
    }
    SUBCASE("for another machine") {
      auto copy = dir.take("test.host.good.tenon.so", "machine.tenon.so");
      std::fstream f(copy, std::ios::in | std::ios::out | std::ios::binary);
      f.seekp(18).put(1).put(1);  // e_machine
      f.close();
      const auto e = refusal(copy);
      CHECK(e.code == Errc::kIncompatible);
      CHECK(begins(e.detail, "is for another machine (ELF machine 257"));
    }
  }

  TEST_CASE("a truncated file is refused at every length") {
    const test::TempDir dir;
    const auto whole = test::plugin_file("test.host.good");
    std::ifstream in(whole, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const std::size_t lengths[] = {
        1, 3, 4, 17, 63, 64, 200, 4096, bytes.size() / 2, bytes.size() - 1};
    for (const std::size_t n : lengths) {
      CAPTURE(n);
      const auto file = dir.path() / ("cut" + std::to_string(n) + ".tenon.so");
      std::ofstream(file, std::ios::binary) << bytes.substr(0, n);
      const auto e = refusal(file);
      CHECK((contains(e.detail, "is truncated") || contains(e.detail, "too short")));
      CHECK(contains(e.detail, "; "));  // a remedy
    }
  }

  TEST_CASE("no entry object: the exported names are shown") {
    const auto e = refusal(test::plugin_file("no_entry"));
    CHECK(begins(e.detail, "no symbol tenon_plugin_entry (exports: "));
    CHECK(contains(e.detail, "first"));
    CHECK(contains(e.detail, "second"));
    CHECK(contains(e.detail, "TENON_PLUGINS()"));
  }

  TEST_CASE("a missing function: the text of the loader names it") {
    const auto e = refusal(test::plugin_file("undefined"));
    CHECK(e.detail ==
          "the loader says: undefined symbol: no_such_function_anywhere; install or link what is "
          "missing");
  }

  TEST_CASE("what the entry says") {
    CHECK(begins(refusal(test::plugin_file("test.host.wrongmagic")).detail,
                 "tenon_plugin_entry has the wrong magic; rebuild the plug-in"));
    CHECK(begins(refusal(test::plugin_file("test.host.wrongmajor")).detail,
                 "built for ABI 2.0, this host speaks 1.0; rebuild the plug-in"));
    CHECK(begins(refusal(test::plugin_file("test.host.shortentry")).detail,
                 "entry truncated: 24 bytes"));
    CHECK(refusal(test::plugin_file("test.host.wrongmajor")).code == Errc::kIncompatible);
  }

  TEST_CASE("init of the entry fails or throws") {
    const auto failed = refusal(test::plugin_file("test.host.entryinit"));
    CHECK(failed.code == Errc::kDenied);
    CHECK(failed.detail == "init failed: no licence for this machine");
    const auto thrown = refusal(test::plugin_file("test.host.throwinginit"));
    CHECK(begins(thrown.detail, "init threw an exception: the disk is made of cheese; repair"));
  }

  TEST_CASE("factory and descriptors") {
    CHECK(begins(refusal(test::plugin_file("test.host.nofactory")).detail,
                 "offers no factory this host knows"));
    CHECK(begins(refusal(test::plugin_file("test.host.badid")).detail,
                 "descriptor 0 has the illegal id \"Bad_Id\""));
    CHECK(begins(refusal(test::plugin_file("test.host.noversion")).detail,
                 "descriptor \"org.example.variant\" has no version"));
    CHECK(begins(refusal(test::plugin_file("test.host.foreign")).detail,
                 "\"org.example.variant\" offers no interface that this host knows "
                 "(com.example.frobnicate/3)"));
    CHECK(contains(refusal(test::plugin_file("test.host.malformed")).detail,
                   "malformed interface \"tenon.storage\""));
    CHECK(begins(refusal(test::plugin_file("test.host.twins")).detail,
                 "has two plug-ins with the id \"org.example.variant\""));
  }

  TEST_CASE("a file or folder that others may write is refused unless insecure is set") {
    const test::TempDir dir;
    SUBCASE("the file") {
      const auto file = dir.take("test.host.good.tenon.so", "w.tenon.so");
      test::fs::permissions(file, test::fs::perms::others_write, test::fs::perm_options::add);
      const auto e = refusal(file);
      CHECK(e.code == Errc::kDenied);
      CHECK(e.detail == "may be written by others; chmod go-w the file, or set insecure = true");
      CHECK(test::make_registry({}, true)->load(file).has_value());
    }
    SUBCASE("the folder") {
      const auto file = dir.take("test.host.good.tenon.so", "f.tenon.so");
      test::fs::permissions(dir.path(), test::fs::perms::others_write, test::fs::perm_options::add);
      CHECK(begins(refusal(file).detail, "lies in " + test::fs::canonical(dir.path()).string()));
    }
  }

  TEST_CASE("no permission to read") {
    const test::TempDir dir;
    const auto file = dir.take("test.host.good.tenon.so", "r.tenon.so");
    test::fs::permissions(file, test::fs::perms::none);
    test::fs::permissions(dir.path(),
                          test::fs::perms::others_exec | test::fs::perms::others_read,
                          test::fs::perm_options::add);
    if (::geteuid() != 0) {
      CHECK(begins(refusal(file).detail, "cannot be read: Permission denied; give the user"));
      return;
    }
    // root may read everything: ask as somebody else, in a child
    int fds[2];
    REQUIRE(::pipe(fds) == 0);
    const auto child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const bool other =
          ::setresgid(65534, 65534, 65534) == 0 && ::setresuid(65534, 65534, 65534) == 0;
      const auto loaded = test::make_registry()->load(file);
      const std::string text = !other   ? "cannot change user"
                               : loaded ? "was loaded"
                                        : loaded.error().detail;
      [[maybe_unused]] const auto n = ::write(fds[1], text.data(), text.size());
      ::_exit(0);
    }
    ::close(fds[1]);
    char buffer[1024];
    std::string text;
    for (ssize_t n = 0; (n = ::read(fds[0], buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(n));
    }
    ::close(fds[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK_MESSAGE(
        contains(
            text,
            "r.tenon.so: cannot be read: Permission denied; give the user of the process read"),
        text);
  }

  TEST_CASE(
      "a file that is replaced under its name after it was loaded is not silently the old one") {
    const test::TempDir dir;
    const auto file = dir.take("test.host.good.tenon.so", "org.example.good.tenon.so");
    auto registry = test::make_registry();
    REQUIRE(registry->load(file).has_value());
    CHECK(registry->load(file).has_value());  // the same again is fine
    dir.take("test.host.good110.tenon.so", "new");
    test::fs::rename(dir.path() / "new", file);
    const auto e = refusal(file);
    CHECK(e.code == Errc::kConflict);
    CHECK(contains(e.detail, "install the new one under another name"));
  }
}
