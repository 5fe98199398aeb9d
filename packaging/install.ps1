# Installs pipefy and pipefy-mcp-server from an archive whose checksum is beside it:
#
#     powershell -File install.ps1 -From https://HOST/FOLDER [-To DIR] [-Version VERSION]
#
# It looks there for pipefy-VERSION-SYSTEM.zip and that name with .sha256 behind it. Nothing is installed unless
# everything was fetched, the checksum fits and the program runs.
param(
    [Parameter(Mandatory = $true)][string] $From,
    [string] $To = (Join-Path $Env:LOCALAPPDATA 'Programs\pipefy'),
    [string] $Version = 'latest'
)
$ErrorActionPreference = 'Stop'
Set-StrictMode -Version 3.0

if ($From -notmatch '^https://' -and $From -notmatch '^http://(127\.0\.0\.1|localhost):') {
    throw "$From is not https"
}
$system = switch ($Env:PROCESSOR_ARCHITECTURE) {
    'AMD64' { 'x86_64-pc-windows-msvc' }
    'ARM64' { 'aarch64-pc-windows-msvc' }
    default { throw "There is no archive for $Env:PROCESSOR_ARCHITECTURE" }
}
$name = "pipefy-$Version-$system.zip"
$work = Join-Path ([System.IO.Path]::GetTempPath()) ([System.IO.Path]::GetRandomFileName())
New-Item -ItemType Directory -Path $work | Out-Null
try {
    foreach ($file in $name, "$name.sha256") {
        Invoke-WebRequest -UseBasicParsing -Uri "$From/$file" -OutFile (Join-Path $work $file)
    }
    $wanted = ((Get-Content -Raw (Join-Path $work "$name.sha256")) -split '\s+')[0]
    $found = (Get-FileHash -Algorithm SHA256 (Join-Path $work $name)).Hash
    if (-not $wanted -or $wanted -ne $found) {
        throw "The checksum of $name does not fit; nothing was installed"
    }
    $unpacked = Join-Path $work 'unpacked'
    Expand-Archive -Path (Join-Path $work $name) -DestinationPath $unpacked
    & (Join-Path $unpacked 'pipefy.exe') --version | Out-Null
    if ($LASTEXITCODE -ne 0) {
        throw 'The program does not run on this machine'
    }
    New-Item -ItemType Directory -Force -Path $To | Out-Null
    foreach ($program in 'pipefy.exe', 'pipefy-mcp-server.exe') {
        $source = Join-Path $unpacked $program
        if (Test-Path $source) {
            Copy-Item -Force $source (Join-Path $To $program)
            Write-Output "installed $(Join-Path $To $program)"
        }
    }
} finally {
    Remove-Item -Recurse -Force $work
}
