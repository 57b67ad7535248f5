// How long a program took until it served.
#pragma once

#include <chrono>

namespace tenon::app {

/// Construct it first in main.
class StartClock {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace tenon::app
