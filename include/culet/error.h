// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Errors are values: whatever a correct program can meet (bad input, a missing driver, a kernel
// that does not compile) is a Result; bugs assert. The code says which exit status a command-line
// program should end with.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace culet {

/// The kind of an Error. The CLI ends with `exit_status(code)`.
enum class ErrorCode {
  invalid_argument,  ///< the caller's input is wrong; the message says what would be right (exit 2)
  unsupported,   ///< valid, but nothing here can do it; the message says why               (exit 3)
  no_candidate,  ///< no backend produced a usable candidate                                (exit 3)
  wrong_result,  ///< a kernel computed something other than the reference                  (exit 4)
  device,        ///< device, driver or vendor library missing or failing                   (exit 5)
  build_failed,  ///< a kernel did not compile; `detail` holds the compiler's log           (exit 5)
  io,          ///< file or cache trouble                                                  (exit 6)
  regression,  ///< a comparison found something slower than it was                       (exit 7)
  out_of_budget,  ///< the time budget is used up                                             (exit
                  ///< 124)
  interrupted,    ///< the user asked to stop                                                 (exit
                  ///< 130)
};

/// What went wrong: one line for people in `message`, anything longer (a compiler log) in `detail`.
struct Error {
  ErrorCode code = ErrorCode::invalid_argument;
  std::string message;
  std::string detail;
};

/// A value or an Error.
template <typename T>
using Result = tl::expected<T, Error>;

/// Shorthand to return an error: `return fail(ErrorCode::io, "cannot open ...")`.
inline tl::unexpected<Error> fail(ErrorCode code, std::string message, std::string detail = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(detail)});
}

/// The documented process exit status of an error code.
int exit_status(ErrorCode code);

}  // namespace culet
