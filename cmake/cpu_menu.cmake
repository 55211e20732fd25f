# SPDX-License-Identifier: Apache-2.0
#
# The instruction set of each file of precompiled CPU kernels; which of them may run is decided by CPUID.
set(menu ${PROJECT_SOURCE_DIR}/src/backends/cpu_tile)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(fast -O2 -ffp-contract=fast -fno-math-errno -fno-trapping-math)
  set_source_files_properties(${menu}/menu_v3.cpp PROPERTIES COMPILE_OPTIONS "${fast};-march=x86-64-v3")
  set_source_files_properties(${menu}/menu_v4.cpp PROPERTIES COMPILE_OPTIONS "${fast};-march=x86-64-v4")
  set_source_files_properties(${menu}/menu_v4bf16.cpp ${menu}/menu_amx.cpp PROPERTIES COMPILE_OPTIONS
                              "${fast};-march=x86-64-v4;-mavx512bf16")
else()
  set_source_files_properties(${menu}/menu_v3.cpp ${menu}/menu_v4.cpp ${menu}/menu_v4bf16.cpp ${menu}/menu_amx.cpp
                              PROPERTIES HEADER_FILE_ONLY ON)
endif()
