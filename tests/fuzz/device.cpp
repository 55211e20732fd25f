// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Device files: what is accepted is written, and read again.
#include "culet/device.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace culet;
  if (const auto device = DeviceSpec::from_json(fuzz::text_of(data, size))) {
    const auto again = DeviceSpec::from_json(device->json());
    fuzz::must(again.has_value(), again ? "" : again.error().message);
    fuzz::must(again->json() == device->json(), "device round trip");
    (void)device->identity();
  }
  return 0;
}
