#!/bin/sh
# Make an aarch64 Python with TVM that runs here, under qemu: sh tests/arm_python.sh FOLDER
#
# Debian's packages for arm64 and PyPI's wheels are unpacked below FOLDER (about 600 MB); nothing
# is installed, and root is not needed. FOLDER/python starts it; slow tests take it from the
# variable TVMCONV_ARM_PYTHON. Needs apt, dpkg, qemu-user, and pip (that of .venv, or of PYTHON).
set -eu
[ $# = 1 ] || { sed -n 2p "$0"; exit 2; }
python=${PYTHON:-$(cd "$(dirname "$0")/.." && pwd)/.venv/bin/python}
"$python" -m pip --version >/dev/null
mkdir -p "$1"
folder=$(cd "$1" && pwd)

# a state of apt's of its own: that of this system stays as it is
cd "$folder"
mkdir -p apt/lists/partial apt/cache/archives/partial apt/parts root wheels
: >apt/status
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "http://deb.debian.org/debian ${DEBIAN_RELEASE:-bookworm} main" >apt/sources.list
cat >apt/apt.conf <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "$(id -un)";
Dir::State "$folder/apt";
Dir::State::lists "$folder/apt/lists";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt/cache";
Dir::Etc::SourceList "$folder/apt/sources.list";
Dir::Etc::SourceParts "$folder/apt/parts";
Acquire::Languages "none";
END
APT_CONFIG=$folder/apt/apt.conf
export APT_CONFIG
apt-get -qq update
apt-get -qq -y --no-install-recommends --download-only install python3 libstdc++6
for package in apt/cache/archives/*.deb; do
    dpkg -x "$package" root
done

version=$(readlink root/usr/bin/python3)
"$python" -m pip install --quiet --upgrade --target wheels --only-binary=:all: \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 \
    --platform manylinux2014_aarch64 --python-version "${version#python}" \
    "apache-tvm==0.27.*" apache-tvm-ffi==0.1.14.post1 numpy onnx psutil cloudpickle tornado \
    platformdirs filelock

cat >python <<END
#!/bin/sh
# QEMU_CPU chooses the processor
PYTHONPATH=$folder/wheels\${PYTHONPATH:+:\$PYTHONPATH}
export PYTHONPATH
exec qemu-aarch64 -L "$folder/root" "$folder/root/usr/bin/python3" "\$@"
END
chmod +x python
./python -c 'import platform, numpy; print("Python", platform.python_version(), platform.machine())'
