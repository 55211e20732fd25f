// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Makers of the built-in backends, one folder each. registry.cpp lists them in the order they are
// asked.
#pragma once

#include <memory>

#include "culet/backend.h"

namespace culet {

// CUDA
std::shared_ptr<const Backend> make_cublaslt_backend();     ///< vendor
std::shared_ptr<const Backend> make_sm90_dense_backend();   ///< TMA + WGMMA, Hopper
std::shared_ptr<const Backend> make_sm90_stream_backend();  ///< decode (small m), Hopper
std::shared_ptr<const Backend> make_gemv_backend();         ///< m <= 8 on ordinary cores
std::shared_ptr<const Backend> make_mma_backend();   ///< tensor cores from sm_80 on, any layout
std::shared_ptr<const Backend> make_simt_backend();  ///< any dtype, layout, stride, alignment
std::shared_ptr<const Backend> make_pointwise_backend();  ///< epilogue steps only, CUDA
// CPU
std::shared_ptr<const Backend> make_openblas_backend();  ///< vendor
std::shared_ptr<const Backend> make_onednn_backend();    ///< vendor
std::shared_ptr<const Backend> make_cpu_tile_backend();
std::shared_ptr<const Backend> make_reference_backend();      ///< fallback, CPU
std::shared_ptr<const Backend> make_cpu_pointwise_backend();  ///< epilogue steps only, CPU

}  // namespace culet
