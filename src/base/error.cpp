// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// The one place that ties error codes to process exit statuses.
#include "culet/error.h"

namespace culet {

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return 2;
    case ErrorCode::unsupported:
    case ErrorCode::no_candidate:
      return 3;
    case ErrorCode::wrong_result:
      return 4;
    case ErrorCode::device:
    case ErrorCode::build_failed:
      return 5;
    case ErrorCode::io:
      return 6;
    case ErrorCode::regression:
      return 7;
    case ErrorCode::out_of_budget:
      return 124;
    case ErrorCode::interrupted:
      return 130;
  }
  return 1;
}

}  // namespace culet
