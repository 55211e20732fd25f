# SPDX-License-Identifier: Apache-2.0
#
# One object library per module, with the modules it may use: the layers of docs/design.md. All of them together are the
# library `culet`.

add_library(culet_options INTERFACE)
target_include_directories(culet_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> ${PROJECT_SOURCE_DIR}/src)
target_compile_options(culet_options INTERFACE -Wall -Wextra $<$<BOOL:${CULET_WERROR}>:-Werror>)
target_link_libraries(culet_options INTERFACE tl::expected fmt::fmt Threads::Threads ${CMAKE_DL_LIBS})

set(CULET_OBJECTS "")

# culet_module(<name> [module it uses ...])  compiles src/<name>/*.cpp
function(culet_module name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  string(REPLACE "/" "_" target ${name})
  if(NOT sources)
    file(WRITE ${PROJECT_BINARY_DIR}/empty/${target}.cpp "")
    set(sources ${PROJECT_BINARY_DIR}/empty/${target}.cpp)
  endif()
  add_library(culet_${target} STATIC ${sources})
  target_link_libraries(culet_${target} PUBLIC culet_options ${ARGN})
  set(CULET_OBJECTS "${CULET_OBJECTS};culet_${target}" PARENT_SCOPE)
endfunction()

culet_module(base)
culet_module(problem culet_base)
culet_module(candidate culet_problem)
culet_module(device culet_candidate)
culet_module(ranking culet_device)
culet_module(codegen culet_device)
culet_module(cache culet_device)
culet_module(selection culet_device)
culet_module(compile culet_codegen culet_cache)
culet_module(launch culet_cache culet_device)
culet_module(benchmark culet_launch culet_compile)
file(GLOB backend_folders LIST_DIRECTORIES true RELATIVE ${PROJECT_SOURCE_DIR}/src/backends CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backends/*)
set(backends "")
foreach(folder ${backend_folders})
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/src/backends/${folder})
    culet_module(backends/${folder} culet_compile culet_launch culet_ranking)
    list(APPEND backends culet_backends_${folder})
  endif()
endforeach()
culet_module(backends ${backends})
culet_module(tuner culet_backends culet_benchmark culet_selection)
culet_module(report culet_tuner)

# Device code and CPU kernel templates are embedded as text.
file(GLOB_RECURSE kernel_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/*.cuh ${PROJECT_SOURCE_DIR}/src/kernels/*.h)
set(embedded ${PROJECT_BINARY_DIR}/generated/embedded_kernels.cpp)
add_custom_command(OUTPUT ${embedded}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded} -DROOT=${PROJECT_SOURCE_DIR}/src/kernels "-DFILES=${kernel_files}"
          -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${kernel_files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
target_sources(culet_codegen PRIVATE ${embedded})

find_package(SQLite3 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_path(ZSTD_INCLUDE zstd.h REQUIRED)
find_library(ZSTD_LIBRARY NAMES libzstd.a zstd REQUIRED)
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
find_library(SQLITE_STATIC NAMES libsqlite3.a sqlite3 REQUIRED)
foreach(module cache candidate device report problem benchmark)
  target_link_libraries(culet_${module} PRIVATE nlohmann_json::nlohmann_json)
endforeach()
target_link_libraries(culet_cache PRIVATE ${SQLITE_STATIC} ${ZSTD_LIBRARY})
