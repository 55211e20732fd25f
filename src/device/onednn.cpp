// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The culet authors
//
// Loading of oneDNN.
#include "device/onednn.h"

#include <fmt/format.h>

#include "device/library.h"

namespace culet {

namespace {

bool bind_all(const Library& library, OneDnn& dnn) {
  return library.bind(dnn.memory_desc_init_by_strides, "dnnl_memory_desc_init_by_strides") &&
         library.bind(dnn.memory_desc_init_by_tag, "dnnl_memory_desc_init_by_tag") &&
         library.bind(dnn.memory_desc_get_size, "dnnl_memory_desc_get_size") &&
         library.bind(dnn.matmul_desc_init, "dnnl_matmul_desc_init") &&
         library.bind(dnn.primitive_desc_create, "dnnl_primitive_desc_create") &&
         library.bind(dnn.primitive_desc_destroy, "dnnl_primitive_desc_destroy") &&
         library.bind(dnn.primitive_desc_query, "dnnl_primitive_desc_query") &&
         library.bind(dnn.primitive_desc_query_md, "dnnl_primitive_desc_query_md") &&
         library.bind(dnn.primitive_create, "dnnl_primitive_create") &&
         library.bind(dnn.primitive_destroy, "dnnl_primitive_destroy") &&
         library.bind(dnn.primitive_execute, "dnnl_primitive_execute") &&
         library.bind(dnn.attr_create, "dnnl_primitive_attr_create") &&
         library.bind(dnn.attr_destroy, "dnnl_primitive_attr_destroy") &&
         library.bind(dnn.attr_set_scratchpad_mode, "dnnl_primitive_attr_set_scratchpad_mode") &&
         library.bind(dnn.attr_set_post_ops, "dnnl_primitive_attr_set_post_ops") &&
         library.bind(dnn.post_ops_create, "dnnl_post_ops_create") &&
         library.bind(dnn.post_ops_destroy, "dnnl_post_ops_destroy") &&
         library.bind(dnn.post_ops_append_eltwise, "dnnl_post_ops_append_eltwise") &&
         library.bind(dnn.memory_create, "dnnl_memory_create") &&
         library.bind(dnn.memory_destroy, "dnnl_memory_destroy") &&
         library.bind(dnn.memory_set_data_handle, "dnnl_memory_set_data_handle") &&
         library.bind(dnn.reorder_primitive_desc_create, "dnnl_reorder_primitive_desc_create") &&
         library.bind(dnn.stream_create, "dnnl_stream_create") &&
         library.bind(dnn.stream_destroy, "dnnl_stream_destroy") &&
         library.bind(dnn.engine_create, "dnnl_engine_create");
}

}  // namespace

Result<OneDnn> load_onednn(const std::vector<std::string>& sonames,
                           const std::vector<std::string>& folders) {
  const Result<Library> library = Library::open("oneDNN", sonames, folders);
  if (!library) return tl::unexpected(library.error());

  OneDnn dnn;
  if (!library->bind(dnn.version_info, "dnnl_version")) {
    return fail(ErrorCode::device, fmt::format("{} has no dnnl_version", library->path()));
  }
  const dnn::Version* number = dnn.version_info();
  if (number->major != 2) {
    return fail(ErrorCode::device,
                fmt::format("{} is oneDNN {}.{}; culet speaks the interface of 2.x",
                            library->path(), number->major, number->minor));
  }
  if (!bind_all(*library, dnn)) {
    return fail(ErrorCode::device,
                fmt::format("{} lacks entry points of oneDNN 2", library->path()));
  }
  // dlsym also looks into what the library is linked with.
  const bool omp = library->bind(dnn.omp_set_num_threads, "omp_set_num_threads") &&
                   library->bind(dnn.omp_get_max_threads, "omp_get_max_threads");
  if (!omp) {
    dnn.omp_set_num_threads = nullptr;
    dnn.omp_get_max_threads = nullptr;
  }
  if (dnn.engine_create(&dnn.engine, dnn::kEngineCpu, 0) != dnn::kSuccess) {
    return fail(ErrorCode::device, fmt::format("{} has no CPU engine", library->path()));
  }
  dnn.version = fmt::format("{}.{}.{} {}", number->major, number->minor, number->patch,
                            omp ? "omp" : "no-omp");
  dnn.path = library->path();
  return dnn;
}

const Result<OneDnn>& onednn() {
  // Version 3 is looked for too, to say that it is there and not spoken.
  static const Result<OneDnn> loaded =
      load_onednn({"libdnnl.so.2", "libdnnl.so.3", "libdnnl.so"},
                  {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/lib"});
  return loaded;
}

}  // namespace culet
