# SPDX-License-Identifier: Apache-2.0
#
# Libraries culet is built with. The program must run where none of them is installed, so each is linked from its archive
# where the system has one. CUDA, OpenBLAS and oneDNN are not here: they are opened at run time.

find_package(Threads REQUIRED)
find_package(tl-expected REQUIRED)
find_package(nlohmann_json REQUIRED)
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
find_path(ZSTD_INCLUDE zstd.h REQUIRED)
find_library(ZSTD_LIBRARY NAMES libzstd.a zstd REQUIRED)
find_path(SQLITE_INCLUDE sqlite3.h REQUIRED)
find_library(SQLITE_LIBRARY NAMES libsqlite3.a sqlite3 REQUIRED)

# fmt: where the system has it as a shared library only (Debian), its non-inline part is compiled here.
find_package(fmt 9 REQUIRED)
get_target_property(fmt_type fmt::fmt TYPE)
if(fmt_type STREQUAL STATIC_LIBRARY)
  add_library(culet_fmt INTERFACE)
  target_link_libraries(culet_fmt INTERFACE fmt::fmt)
else()
  add_library(culet_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt/fmt.cpp)
  get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  if(fmt_include)
    target_include_directories(culet_fmt SYSTEM PUBLIC ${fmt_include})
  endif()
endif()
