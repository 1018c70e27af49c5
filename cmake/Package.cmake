# Packages: tools/make_packages builds what is here and hands it to CPack and tools/make_wheel.py. Component `bundled`, which
# an installation without a package does not have: libraries of which distributions have different versions, licences.
set(SPILLWAY_BUNDLE "fmt|yaml-cpp|hwy|cpp-httplib|utf8proc" CACHE STRING
    "Libraries that packages bring along, as a regular expression of names without lib and .so")

# DT_RPATH, which unlike DT_RUNPATH also holds for what those libraries need.
set_target_properties(spillway PROPERTIES INSTALL_RPATH "\$ORIGIN/../${private_libraries}" BUILD_WITH_INSTALL_RPATH ON)
target_link_options(spillway PRIVATE LINKER:--disable-new-dtags)
install(RUNTIME_DEPENDENCY_SET libraries
        PRE_INCLUDE_REGEXES "^lib(${SPILLWAY_BUNDLE})\\.so" PRE_EXCLUDE_REGEXES "."
        LIBRARY DESTINATION ${private_libraries} COMPONENT bundled EXCLUDE_FROM_ALL)
set(others)
if(SPILLWAY_ARROW)
  string(APPEND others " \"arrow=${SPILLWAY_ARROW}\"")
endif()
if(SPILLWAY_CUDA)
  string(APPEND others " \"cudnn_frontend=${SPILLWAY_CUDNN_FRONTEND}/..\"")
endif()
install(CODE "execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND ${PROJECT_SOURCE_DIR}/tools/copy_licences
        \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\"${others})" COMPONENT bundled EXCLUDE_FROM_ALL)

# Manual pages and completion for shells, from the program itself, so that they say what it does.
set(made ${PROJECT_BINARY_DIR}/package)
add_custom_command(
  OUTPUT ${made}/done
  COMMAND ${PROJECT_SOURCE_DIR}/tools/make_package_files $<TARGET_FILE:spillway> ${made}
  COMMAND ${CMAKE_COMMAND} -E touch ${made}/done
  DEPENDS spillway ${PROJECT_SOURCE_DIR}/tools/make_package_files
  COMMENT "Making manual pages and completion scripts" VERBATIM)
add_custom_target(spillway_package_files DEPENDS ${made}/done)
install(DIRECTORY ${made}/share DESTINATION . COMPONENT program OPTIONAL)

set(CPACK_PACKAGE_NAME spillway)
set(CPACK_PACKAGE_VENDOR "The Spillway authors")
set(CPACK_PACKAGE_CONTACT "The Spillway authors <spillway@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "fine-tunes language models in the memory that it is given")
set(CPACK_PACKAGE_DESCRIPTION
"Plans where every byte of a training job will live, in device memory, RAM or
on disk, and what is recomputed; shows the plan with its predicted speed and
runs it to the letter. Reads Hugging Face models and the configs of axolotl,
TRL and DeepSpeed; writes PEFT adapters, complete models and GGUF files.")
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_SOURCE_DIR}/build/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL program bundled)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # tests are in no package
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_PACKAGE_NAME spillway)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/_CPack_Packages/Linux/DEB)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates, openmpi-bin")
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/PackageTools.cmake)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3, bash-completion")
include(CPack)
