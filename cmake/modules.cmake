# SPDX-License-Identifier: Apache-2.0
#
# One library per module, with the modules it may use: the layers of docs/design.md (tools/check_layers.py checks the
# includes). The objects of all of them together are the library `culet`.

add_library(culet_options INTERFACE)
target_include_directories(culet_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> ${PROJECT_SOURCE_DIR}/src)
target_compile_options(culet_options INTERFACE -Wall -Wextra $<$<BOOL:${CULET_WERROR}>:-Werror>)
# g++ 12 and 13 warn falsely where strings are joined at -O2 and above (GCC bug 105651).
target_compile_options(culet_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# Nobody reads errno or floating-point exception flags after arithmetic; without these two, g++ does not turn loops with
# selects and square roots into vector code. Results stay the same.
target_compile_options(culet_options INTERFACE -fno-math-errno -fno-trapping-math)
target_link_libraries(culet_options INTERFACE tl::expected culet_fmt Threads::Threads ${CMAKE_DL_LIBS})

set(CULET_OBJECTS "")

# culet_module(<name> [module it uses ...])  compiles src/<name>/*.cpp. A module that needs more (compile flags of single
# files) says so in src/<name>/module.cmake, where `target` is its library.
function(culet_module name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  string(REPLACE "/" "_" target ${name})
  if(NOT sources)
    file(WRITE ${PROJECT_BINARY_DIR}/empty/${target}.cpp "")
    set(sources ${PROJECT_BINARY_DIR}/empty/${target}.cpp)
  endif()
  add_library(culet_${target} STATIC ${sources})
  target_link_libraries(culet_${target} PUBLIC culet_options ${ARGN})
  include(${PROJECT_SOURCE_DIR}/src/${name}/module.cmake OPTIONAL)
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
culet_module(benchmark culet_launch)
file(GLOB backend_folders LIST_DIRECTORIES true RELATIVE ${PROJECT_SOURCE_DIR}/src/backends CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backends/*)
set(backends "")
foreach(folder ${backend_folders})
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/src/backends/${folder})
    culet_module(backends/${folder} culet_compile culet_launch culet_ranking)
    list(APPEND backends culet_backends_${folder})
  endif()
endforeach()
include(cmake/cpu_menu.cmake)
culet_module(backends ${backends})
culet_module(tuner culet_backends culet_benchmark culet_selection)
culet_module(report culet_tuner)

# Device code and CPU kernel templates are embedded as text.
file(GLOB_RECURSE kernel_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/*.cuh ${PROJECT_SOURCE_DIR}/src/kernels/*.h)
set(embedded ${PROJECT_BINARY_DIR}/generated/embedded_kernels.cpp)
add_custom_command(OUTPUT ${embedded}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${embedded} -DFUNCTION=embedded_kernel_table -DROOT=${PROJECT_SOURCE_DIR}/src/kernels "-DFILES=${kernel_files}"
          -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${kernel_files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
target_sources(culet_codegen PRIVATE ${embedded})

# Device presets likewise.
file(GLOB preset_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/presets/*.json)
set(presets ${PROJECT_BINARY_DIR}/generated/embedded_presets.cpp)
add_custom_command(OUTPUT ${presets}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${presets} -DFUNCTION=embedded_preset_table -DROOT=${PROJECT_SOURCE_DIR}/src/device/presets
          "-DFILES=${preset_files}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${preset_files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
target_sources(culet_device PRIVATE ${presets})

# What the library is built from, as a number: worker processes are of the same build.
set(library_files "")
foreach(kind src/*.cpp src/*.h src/*.cuh src/*.json src/*.cmake include/*.h)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${kind})
  list(APPEND library_files ${files})
endforeach()
set(build_id ${PROJECT_BINARY_DIR}/generated/build_id.cpp)
add_custom_command(OUTPUT ${build_id}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${build_id} -DROOT=${PROJECT_SOURCE_DIR} "-DFILES=${library_files}"
          -P ${PROJECT_SOURCE_DIR}/cmake/build_id.cmake
  DEPENDS ${library_files} ${PROJECT_SOURCE_DIR}/cmake/build_id.cmake VERBATIM)
target_sources(culet_benchmark PRIVATE ${build_id})

foreach(module base cache candidate device report problem benchmark)
  target_link_libraries(culet_${module} PRIVATE nlohmann_json::nlohmann_json)
endforeach()
target_link_libraries(culet_cache PRIVATE ${SQLITE_LIBRARY} ${ZSTD_LIBRARY})

# The library: one archive (and, if asked for, one shared library) of everything above.
function(culet_library target type)
  add_library(${target} ${type})
  foreach(module ${CULET_OBJECTS})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${module}>)
  endforeach()
  get_target_property(fmt_kind culet_fmt TYPE)
  if(fmt_kind STREQUAL STATIC_LIBRARY)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:culet_fmt>)
  else()
    target_link_libraries(${target} PRIVATE fmt::fmt)
  endif()
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # In the installed package these two are plain library names, found where the package is used.
  target_link_libraries(${target} PUBLIC tl::expected
    PRIVATE Threads::Threads ${CMAKE_DL_LIBS} $<BUILD_INTERFACE:${SQLITE_LIBRARY}> $<BUILD_INTERFACE:${ZSTD_LIBRARY}>
            $<INSTALL_INTERFACE:sqlite3> $<INSTALL_INTERFACE:zstd> m)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()
culet_library(culet STATIC)
add_library(culet::culet ALIAS culet)
if(CULET_SHARED)
  culet_library(culet_shared SHARED)
  set_target_properties(culet_shared PROPERTIES OUTPUT_NAME culet VERSION ${PROJECT_VERSION} SOVERSION 0
                        EXPORT_NAME shared)
  target_link_options(culet_shared PRIVATE -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL)
  add_library(culet::shared ALIAS culet_shared)
endif()
